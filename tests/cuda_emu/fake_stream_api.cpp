// The fake CUDA runtime: streams and events.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cuda_emu/fake_graph.h"

namespace hs::cuda_emu {
namespace {

cudaError_t make_stream(const char* name, cudaStream_t* stream, unsigned flags, int priority) {
  return api(name, Needs::kContext, [&](Machine& m) {
    if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto made = std::make_shared<Stream>();
    made->number = m.next_stream_number();
    made->device = m.current();
    made->blocking = flags != cudaStreamNonBlocking;
    made->priority = priority;
    *stream = m.streams().add(std::move(made));
    return cudaSuccess;
  });
}

cudaError_t make_event(const char* name, cudaEvent_t* event, unsigned flags) {
  return api(name, Needs::kContext, [&](Machine& m) {
    auto made = std::make_shared<Event>();
    made->device = m.current();
    made->timing = (flags & cudaEventDisableTiming) == 0;
    *event = m.events().add(std::move(made));
    return cudaSuccess;
  });
}

cudaError_t record(Machine& m, Event& event, Stream& stream) {
  if (event.device != stream.device) {
    m.report(fmt::format("an event of device {} is recorded in a stream of device {}", event.device,
                         stream.device));
    return cudaErrorInvalidResourceHandle;
  }
  if (stream.capture != nullptr) return m.record_captured(event, stream);
  event.capture = nullptr;
  OperationPtr done;
  const cudaError_t error = m.submit(stream, {.what = "event"}, &done);
  if (error == cudaSuccess) event.record = std::move(done);
  return error;
}

cudaError_t wait_event(Machine& m, const StreamPtr& stream, const Event& event) {
  if (stream->capture != nullptr || event.capture != nullptr) {
    return m.wait_captured(stream, event);
  }
  if (event.record == nullptr) return cudaSuccess;
  return m.submit_after(*stream, {event.record});
}

template <typename Body>
cudaError_t with_stream(const char* name, cudaStream_t stream, const Body& body,
                        Needs needs = Needs::kContext) {
  return api(name, needs, [&](Machine& m) {
    const StreamPtr s = m.stream(stream);
    return s == nullptr ? cudaErrorInvalidResourceHandle : body(m, *s);
  });
}

template <typename Body>
cudaError_t with_event(const char* name, cudaEvent_t event, const Body& body,
                       Needs needs = Needs::kContext) {
  return api(name, needs, [&](Machine& m) {
    const EventPtr e = m.event(event);
    return e == nullptr ? cudaErrorInvalidResourceHandle : body(m, *e);
  });
}

}  // namespace
}  // namespace hs::cuda_emu

using hs::cuda_emu::api;
using hs::cuda_emu::Event;
using hs::cuda_emu::Machine;
using hs::cuda_emu::Needs;
using hs::cuda_emu::Stream;
using hs::cuda_emu::with_event;
using hs::cuda_emu::with_stream;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return hs::cuda_emu::make_stream("cudaStreamCreate", stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return hs::cuda_emu::make_stream("cudaStreamCreateWithFlags", stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return hs::cuda_emu::make_stream("cudaStreamCreateWithPriority", stream, flags, priority);
}

// Its work goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_stream("cudaStreamDestroy", stream, [&](Machine& m, Stream& s) {
    if (s.capture != nullptr) return m.refuse_in_capture(*s.capture);
    return m.streams().remove(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return with_stream("cudaStreamGetPriority", stream, [&](Machine&, Stream& s) {
    *priority = s.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return with_stream("cudaStreamGetFlags", stream, [&](Machine&, Stream& s) {
    *flags = s.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return with_stream("cudaStreamGetDevice", stream, [&](Machine&, Stream& s) {
    *device = s.device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_stream(
      "cudaStreamSynchronize", stream,
      [](Machine& m, Stream& s) {
        if (s.capture != nullptr) return m.refuse_in_capture(*s.capture);
        return m.wait(s.device, m.last_of(s));
      },
      Needs::kNoCapture);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_stream(
      "cudaStreamQuery", stream,
      [](Machine& m, Stream& s) {
        if (s.capture != nullptr) return m.refuse_in_capture(*s.capture);
        return m.ask(s.device, m.last_of(s));
      },
      Needs::kNoCapture);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return with_event("cudaStreamWaitEvent", event, [&](Machine& m, Event& e) {
    const auto s = m.stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    return hs::cuda_emu::wait_event(m, s, e);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return with_stream("cudaLaunchHostFunc", stream, [&](Machine& m, Stream& s) {
    hs::cuda_emu::Work work{.what = "host function", .type = cudaGraphNodeTypeHost};
    work.run = [function, data] {
      hs::cuda_emu::thread_state().in_host_function = true;
      function(data);
      hs::cuda_emu::thread_state().in_host_function = false;
    };
    return m.submit(s, std::move(work));
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api("cudaDeviceSynchronize", Needs::kNoCapture, [](Machine& m) {
    m.executor().run_device(m.current());
    m.close_memory();
    return m.state_of(m.current());
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return hs::cuda_emu::make_event("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return hs::cuda_emu::make_event("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_event("cudaEventDestroy", event, [&](Machine& m, Event&) {
    return m.events().remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with_event("cudaEventRecord", event, [&](Machine& m, Event& e) {
    const auto s = m.stream(stream);
    return s == nullptr ? cudaErrorInvalidResourceHandle : hs::cuda_emu::record(m, e, *s);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(
      "cudaEventSynchronize", event,
      [](Machine& m, Event& e) {
        if (e.capture != nullptr) return m.refuse_captured_event(e);
        return m.wait(e.device, e.record);
      },
      Needs::kNoCapture);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_event(
      "cudaEventQuery", event,
      [](Machine& m, Event& e) {
        if (e.capture != nullptr) return m.refuse_captured_event(e);
        return m.ask(e.device, e.record);
      },
      Needs::kNoCapture);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_event("cudaEventElapsedTime", start, [&](Machine& m, Event& first) {
    const auto last = m.event(end);
    if (last == nullptr) return cudaErrorInvalidResourceHandle;
    if (first.record == nullptr || last->record == nullptr || !first.timing || !last->timing ||
        first.device != last->device) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!first.record->done || !last->record->done) return cudaErrorNotReady;
    constexpr float kNsPerMs = 1e6F;
    *ms = (static_cast<float>(last->record->end_ns) - static_cast<float>(first.record->end_ns)) /
          kNsPerMs;
    return cudaSuccess;
  });
}

}  // extern "C"
