// Proves the emulator: kernels that are right give the right result in every schedule, and each
// kind of mistake in one is caught, with the place in the message.
#include "cuda/cuda_testing.h"
#include "cuda_emu/built_in.h"
#include "kernels/portable.cuh"
#include "kernels/reduce.cuh"

namespace hs::test {
namespace {

using cuda_emu::Fault;

bool says(const Fault& fault, const std::string& part) {
  const std::string text = fault.what();
  if (text.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("the fault says: " << text);
  return false;
}

// How many of the three schedules give a wrong result or a fault.
template <typename Run>
int schedules_that_show(const Run& right) {
  int shown = 0;
  under_every_schedule([&] {
    try {
      shown += !right();
    } catch (const Fault&) {
      ++shown;
    }
  });
  return shown;
}

// What to leave out of a kernel.
enum class Bug {
  kNone,
  kNoBarrier,
  kNoBarrierAfterReading,
  kNoWait,
  kWaitTooLax,
  kWrongFragment,
  kBarrierInBranch,
  kHalfWarpShuffle,
  kReadsBehindTheEnd,
  kWritesBesideSharedMemory
};

// Sums of blockDim numbers, by shuffles and shared memory.
__global__ void sum_kernel(const float* x, float* y, Bug bug) {
  float* area = cuda::shared_as<float>();
  const unsigned t = threadIdx.x, at = blockIdx.x * blockDim.x + t;
  float v = x[at + (bug == Bug::kReadsBehindTheEnd && at + 1 == gridDim.x * blockDim.x ? 1 : 0)];
  if (bug == Bug::kHalfWarpShuffle && t % 32 < 16) v = __shfl_xor_sync(cuda::kAllLanes, v, 1);
  v = cuda::reduce_lanes<cuda::Sum>(v);
  if (t % 32 == 0) area[t / 32] = v;
  if (bug == Bug::kBarrierInBranch) {
    if (t < 64) __syncthreads();
  } else if (bug != Bug::kNoBarrier) {
    __syncthreads();
  }
  v = cuda::reduce_lanes<cuda::Sum>(t % 32 < blockDim.x / 32 ? area[t % 32] : 0.0F);
  if (bug == Bug::kWritesBesideSharedMemory && t == 0) area[blockDim.x / 32 + 2] = 0;
  if (t == 0) y[blockIdx.x] = v;
}

bool sums_are_right(Bug bug) {
  constexpr unsigned kBlocks = 3, kThreads = 128;
  const DeviceArray<float> x(random_floats(size_t{kBlocks} * kThreads, 1)), y(kBlocks);
  if (cuda::launch(sum_kernel, dim3(kBlocks), kThreads, kThreads / 32 * sizeof(float), nullptr,
                   x.data(), y.data(), bug) != cudaSuccess) {
    return false;
  }
  for (unsigned b = 0; b < kBlocks; ++b) {
    double sum = 0;
    for (unsigned i = 0; i < kThreads; ++i) sum += double{x.data()[b * kThreads + i]};
    if (!(std::abs(sum - double{y.data()[b]}) < 1e-4)) return false;
  }
  return true;
}

// C (64 x 64) = A (64 x K) B^T (64 x K): two stages of cp.async, ldmatrix, mma; 4 warps.
constexpr int kTile = 64, kStep = 32, kPitch = kStep + 8, kDepth = 128;

template <typename T>
__global__ void tile_kernel(const T* a, const T* b, float* c, Bug bug) {
  T* stages = cuda::shared_as<T>();
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const auto load = [&](int stage, int k) {
    T* to = stages + stage * 2 * kTile * kPitch;
    for (int i = t; i < kTile * (kStep / 8); i += 128) {
      const int row = i / (kStep / 8), col = i % (kStep / 8) * 8;
      cuda::copy_async_16(to + row * kPitch + col, a + row * kDepth + k + col, true);
      cuda::copy_async_16(to + (kTile + row) * kPitch + col, b + row * kDepth + k + col, true);
    }
    cuda::commit_async();
  };
  float sums[8][4] = {};
  load(0, 0);
  for (int k = 0; k < kDepth; k += kStep) {
    const int stage = k / kStep % 2;
    if (k + kStep < kDepth) load(1 - stage, k + kStep);
    if (bug == Bug::kWaitTooLax || k + kStep < kDepth) {
      cuda::wait_async<1>();
    } else if (bug != Bug::kNoWait) {
      cuda::wait_async<0>();
    }
    __syncthreads();
    const T* sa = stages + stage * 2 * kTile * kPitch;
    const T* sb = sa + kTile * kPitch;
    for (int kk = 0; kk < kStep; kk += 16) {
      uint32_t fa[4], fb[4];
      cuda::load_matrices(fa, sa + (warp * 16 + lane % 16) * kPitch + kk + lane / 16 * 8);
      for (int n = 0; n < 8; n += 2) {
        const int row = n * 8 + lane % 8 + lane / 16 * 8;
        cuda::load_matrices(fb, sb + row * kPitch + kk + lane / 8 % 2 * 8);
        const bool swapped = bug == Bug::kWrongFragment;
        cuda::multiply_tiles<T>(sums[n], fa, fb[swapped ? 1 : 0], fb[swapped ? 0 : 1]);
        cuda::multiply_tiles<T>(sums[n + 1], fa, fb[2], fb[3]);
      }
    }
    if (bug != Bug::kNoBarrierAfterReading) __syncthreads();
  }
  for (int n = 0; n < 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      const int row = warp * 16 + lane / 4 + i / 2 * 8, col = n * 8 + lane % 4 * 2 + i % 2;
      c[row * kTile + col] = sums[n][i];
    }
  }
}

template <typename T>
bool product_is_right(DType dtype, Bug bug) {
  const Values a(dtype, random_floats(size_t{kTile} * kDepth, 2));
  const Values b(dtype, random_floats(size_t{kTile} * kDepth, 3));
  const DeviceArray<float> c(size_t{kTile} * kTile);
  if (cuda::launch(tile_kernel<T>, dim3(1), 128, size_t{4} * kTile * kPitch * sizeof(T), nullptr,
                   static_cast<const T*>(a.data()), static_cast<const T*>(b.data()), c.data(),
                   bug) != cudaSuccess) {
    return false;
  }
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile; ++j) {
      double sum = 0;
      for (int k = 0; k < kDepth; ++k) {
        sum += double{a.get(static_cast<size_t>(i * kDepth + k))} *
               double{b.get(static_cast<size_t>(j * kDepth + k))};
      }
      if (!(std::abs(sum - double{c.data()[i * kTile + j]}) < 1e-3)) return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(emulator_tests)

BOOST_AUTO_TEST_CASE(a_right_reduction_is_right_in_every_schedule) {
  BOOST_TEST(schedules_that_show([] { return sums_are_right(Bug::kNone); }) == 0);
}

BOOST_AUTO_TEST_CASE(a_right_tensor_core_product_is_right_in_every_schedule_and_format) {
  BOOST_TEST(schedules_that_show([] {
               return product_is_right<cuda::BF16>(DType::kBF16, Bug::kNone) &&
                      product_is_right<cuda::F16>(DType::kF16, Bug::kNone);
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_is_seen) {
  BOOST_TEST(schedules_that_show([] { return sums_are_right(Bug::kNoBarrier); }) > 0);
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_before_memory_is_written_again_is_seen) {
  BOOST_TEST(schedules_that_show([] {
               return product_is_right<cuda::BF16>(DType::kBF16, Bug::kNoBarrierAfterReading);
             }) > 0);
}

BOOST_AUTO_TEST_CASE(a_missing_wait_for_a_copy_is_seen_in_every_schedule) {
  for (const Bug bug : {Bug::kNoWait, Bug::kWaitTooLax}) {
    BOOST_TEST(schedules_that_show(
                   [bug] { return product_is_right<cuda::BF16>(DType::kBF16, bug); }) == 3);
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_fragment_is_seen_in_every_schedule) {
  BOOST_TEST(schedules_that_show([] {
               return product_is_right<cuda::BF16>(DType::kBF16, Bug::kWrongFragment);
             }) == 3);
}

BOOST_AUTO_TEST_CASE(a_barrier_that_not_all_threads_reach_is_a_deadlock_with_its_place) {
  under_every_schedule([] {
    BOOST_CHECK_EXCEPTION(sums_are_right(Bug::kBarrierInBranch), Fault, [](const Fault& fault) {
      return says(fault, "deadlock in block") && says(fault, "__syncthreads at emulator_tests.cpp");
    });
  });
}

BOOST_AUTO_TEST_CASE(lanes_that_meet_in_different_operations_are_told_apart) {
  under_every_schedule([] {
    BOOST_CHECK_EXCEPTION(sums_are_right(Bug::kHalfWarpShuffle), Fault, [](const Fault& fault) {
      return says(fault, "lanes of one warp meet in different operations");
    });
  });
}

BOOST_AUTO_TEST_CASE(an_access_behind_an_array_is_caught) {
  under_every_schedule([] {
    BOOST_CHECK_EXCEPTION(sums_are_right(Bug::kReadsBehindTheEnd), Fault, [](const Fault& fault) {
      return says(fault, "access to memory that is not the kernel's");
    });
  });
}

BOOST_AUTO_TEST_CASE(a_write_beside_shared_memory_is_caught) {
  BOOST_CHECK_EXCEPTION(
      sums_are_right(Bug::kWritesBesideSharedMemory), Fault,
      [](const Fault& fault) { return says(fault, "wrote beside its shared memory"); });
}

BOOST_AUTO_TEST_CASE(a_copy_that_nobody_waits_for_is_caught) {
  const DeviceArray<uint32_t> from(std::vector<uint32_t>(4, 7U));
  const auto kernel = [](const uint32_t* x) {
    if (threadIdx.x == 0) cuda::copy_async_16(cuda::shared_bytes(), x, true);
  };
  BOOST_CHECK_EXCEPTION(
      cuda_emu::launch(dim3(1), dim3(32), 16, [&] { kernel(from.data()); }), Fault,
      [](const Fault& fault) { return says(fault, "cp.async that nobody waited for"); });
}

BOOST_AUTO_TEST_CASE(unaligned_vector_accesses_are_caught) {
  const DeviceArray<uint32_t> from(std::vector<uint32_t>(8, 7U));
  BOOST_CHECK_EXCEPTION(
      cuda_emu::launch(dim3(1), dim3(32), 16, [&] { cuda::load_16(from.data() + 1, true); }), Fault,
      [](const Fault& fault) { return says(fault, "not aligned"); });
  BOOST_CHECK_EXCEPTION(
      cuda_emu::launch(dim3(1), dim3(32), 32,
                       [&] { cuda::copy_async_16(cuda::shared_bytes() + 4, from.data(), true); }),
      Fault, [](const Fault& fault) { return says(fault, "not 16-byte aligned"); });
}

BOOST_AUTO_TEST_CASE(launches_that_no_gpu_takes_are_refused) {
  const auto nothing = [] {};
  BOOST_CHECK_THROW(cuda_emu::launch(dim3(0), dim3(32), 0, nothing), Fault);
  BOOST_CHECK_THROW(cuda_emu::launch(dim3(1, 70000), dim3(32), 0, nothing), Fault);
  BOOST_CHECK_THROW(cuda_emu::launch(dim3(1), dim3(2048), 0, nothing), Fault);
  BOOST_CHECK_THROW(cuda_emu::launch(dim3(1), dim3(48), 0, nothing), Fault);
  BOOST_CHECK_THROW(cuda_emu::launch(dim3(1), dim3(32), size_t{100} << 10, nothing), Fault);
}

BOOST_AUTO_TEST_CASE(a_kernel_runs_again_after_a_fault) {
  BOOST_CHECK_THROW(sums_are_right(Bug::kReadsBehindTheEnd), Fault);
  BOOST_TEST(sums_are_right(Bug::kNone));
}

BOOST_AUTO_TEST_CASE(every_schedule_resumes_threads_in_its_own_order) {
  std::vector<std::vector<unsigned>> orders;
  under_every_schedule([&] {
    std::vector<unsigned> order;
    cuda_emu::launch(dim3(2), dim3(64), 0,
                     [&] { order.push_back(blockIdx.x * blockDim.x + threadIdx.x); });
    BOOST_TEST(order.size() == 128);
    orders.push_back(order);
  });
  BOOST_TEST(orders[0].front() == 0);
  BOOST_TEST(orders[1].front() == 127);
  BOOST_TEST(std::equal(orders[0].begin(), orders[0].end(), orders[1].rbegin()));
  BOOST_TEST((orders[2] != orders[0]));
  std::sort(orders[2].begin(), orders[2].end());
  BOOST_TEST(orders[2] == orders[0]);
}

BOOST_AUTO_TEST_CASE(shuffles_and_votes_reach_the_named_lanes) {
  under_every_schedule([] {
    std::vector<int> from(32), up(32);
    std::vector<unsigned> votes(32);
    cuda_emu::launch(dim3(1), dim3(32), 0, [&] {
      const unsigned t = threadIdx.x;
      from[t] =
          __shfl_sync(cuda::kAllLanes, static_cast<int>(t) * 10, (static_cast<int>(t) + 5) % 32);
      up[t] = __shfl_up_sync(cuda::kAllLanes, static_cast<int>(t), 4);
      votes[t] = __ballot_sync(cuda::kAllLanes, t % 3 == 0);
      __syncwarp();
    });
    for (int t = 0; t < 32; ++t) {
      const auto i = static_cast<size_t>(t);
      BOOST_TEST(from[i] == (t + 5) % 32 * 10);
      BOOST_TEST(up[i] == (t < 4 ? t : t - 4));
      BOOST_TEST(votes[i] == 0x49249249);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
