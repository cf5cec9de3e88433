#include "device/cuda/stream.h"

namespace hs::cuda {

Result<Stream> Stream::create(Context& context, Priority priority) {
  HS_TRY(context.use());
  int lowest = 0;
  int highest = 0;
  HS_CUDA_TRY(context, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  Stream stream;
  stream.device_ = context.index();
  HS_CUDA_TRY(context,
              cudaStreamCreateWithPriority(&stream.stream_, cudaStreamNonBlocking,
                                           priority == Priority::kUrgent ? highest : lowest));
  return stream;
}

Result<Event> Event::create(Context& context) {
  HS_TRY(context.use());
  Event event;
  event.device_ = context.index();
  HS_CUDA_TRY(context, cudaEventCreateWithFlags(&event.event_,
                                                cudaEventDisableTiming | cudaEventBlockingSync));
  return event;
}

}  // namespace hs::cuda
