#include "device/link_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace hs {
namespace {

// One piece at an offset of each device's area.
struct Piece {
  size_t from = 0;
  size_t to = 0;
  size_t bytes = 0;
};

struct Areas {
  Buffer from;
  Buffer to;
  size_t bytes = 0;  // of each
};

Result<Areas> allocate(Device& from, Device& to, size_t bytes) {
  Result<Buffer> source = from.allocate(bytes);
  if (!source) return std::unexpected(source.error());
  Result<Buffer> target = to.allocate(bytes);
  if (!target) return std::unexpected(target.error());
  return Areas{std::move(*source), std::move(*target), bytes};
}

// A new pattern for each seed, so that bytes of the case before are not taken for arrived ones.
std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> values(bytes);
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    const uint64_t word = mix64(seed * 0x100000001B3U + i);
    std::memcpy(values.data() + i, &word, std::min(sizeof word, bytes - i));
  }
  return values;
}

// The device's own checksum, which copies are verified by, against the host's.
Status check_checksum(Device& device, const Buffer& area, std::span<const std::byte> content) {
  const Result<MemoryCheck> check = device.check(area.data(), content.size(), DType::kU8);
  if (!check) return std::unexpected(check.error());
  const MemoryRange host{content.data(), content.size()};
  if (*check == check_host_memory({&host, 1}, DType::kU8)) return {};
  return fail(ErrorKind::kDataLoss,
              fmt::format("{} computes a wrong checksum", to_string(device.id())));
}

Status check_pieces(Device& from, Device& to, Areas& areas, std::span<const Piece> pieces,
                    uint64_t seed, FunctionRef<Status(std::span<const CopyRun> runs)> copy) {
  // As much of the areas as the pieces take, and a little behind them.
  size_t used = 0;
  for (const Piece& piece : pieces)
    used = std::max(used, std::max(piece.from, piece.to) + piece.bytes + 64);
  used = std::min(used, areas.bytes);
  const std::vector<std::byte> sent = pattern(used, 2 * seed);
  std::vector<std::byte> expected = pattern(used, 2 * seed + 1);
  if (Status status = from.write(sent.data(), areas.from.data(), used); !status) return status;
  if (Status status = to.write(expected.data(), areas.to.data(), used); !status) return status;
  std::vector<CopyRun> runs;
  size_t bytes = 0;
  for (const Piece& piece : pieces) {
    runs.push_back({areas.from.as<std::byte>() + piece.from, areas.to.as<std::byte>() + piece.to,
                    piece.bytes});
    std::memcpy(expected.data() + piece.to, sent.data() + piece.from, piece.bytes);
    bytes += piece.bytes;
  }
  if (Status status = copy(runs); !status) return status;
  std::vector<std::byte> arrived(used);
  if (Status status = to.read(areas.to.data(), arrived.data(), used); !status) return status;
  if (arrived != expected) {
    return fail(ErrorKind::kDataLoss,
                fmt::format("a pattern of {} bytes from {} to {} arrived damaged", bytes,
                            to_string(from.id()), to_string(to.id())));
  }
  if (Status status = check_checksum(from, areas.from, sent); !status) return status;
  return check_checksum(to, areas.to, expected);
}

}  // namespace

Status check_link(Device& from, Device& to, size_t chunk_bytes,
                  FunctionRef<Status(std::span<const CopyRun> runs)> copy) {
  Result<Areas> areas = allocate(from, to, 4 * chunk_bytes + 4096);
  if (!areas) return std::unexpected(areas.error());
  // Rows as of a KV cache, in another order there than here.
  std::vector<Piece> rows;
  constexpr size_t kRows = 61;
  rows.reserve(kRows);
  for (size_t i = 0; i < kRows; ++i) rows.push_back({i * 67, (kRows - 1 - i) * 65 + 3, 64 - i % 3});
  const Piece alone[] = {
      {0, 0, 1}, {1, 3, 63}, {64, 128, 4096}, {5, 2, chunk_bytes}, {13, 7, 3 * chunk_bytes + 257}};
  uint64_t seed = 1;
  for (const Piece& piece : alone) {
    if (piece.from + piece.bytes > areas->bytes) continue;
    if (Status status = check_pieces(from, to, *areas, {&piece, 1}, seed++, copy); !status)
      return status;
  }
  return check_pieces(from, to, *areas, rows, seed, copy);
}

}  // namespace hs
