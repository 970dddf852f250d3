// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/stream.h"

#include <utility>

namespace coda::cuda {
namespace {

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

}  // namespace

Stream::Stream(ContextPointer context) {
  const ContextGuard guard(*context);
  StreamHandle stream = nullptr;
  check(driver().cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  stream_ = {stream, {std::move(context)}};
}

void Stream::synchronise() const {
  const ContextGuard guard(*context());
  check(driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

Event::Event(ContextPointer context) {
  const ContextGuard guard(*context);
  EventHandle event = nullptr;
  check(driver().cuEventCreate(&event, 0), "cuEventCreate");
  event_ = {event, {std::move(context)}};
}

void Event::record(StreamHandle stream) const {
  const ContextGuard guard(*event_.get_deleter().context);
  check(driver().cuEventRecord(event_.get(), stream), "cuEventRecord");
}

void Event::synchronise() const {
  check(driver().cuEventSynchronize(event_.get()), "cuEventSynchronize");
}

float elapsed_ms(const Event& start, const Event& stop) {
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, start.handle(), stop.handle()),
        "cuEventElapsedTime");
  return milliseconds;
}

Memory::Memory(ContextPointer context, size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const ContextGuard guard(*context);
  DevicePointer pointer = 0;
  check(driver().cuMemAlloc(&pointer, bytes), "cuMemAlloc");
  data_ = {reinterpret_cast<void*>(pointer), {std::move(context)}};
}

void copy_to_device(const Context& context, void* to, const void* from, size_t bytes,
                    StreamHandle stream) {
  const ContextGuard guard(context);
  check(driver().cuMemcpyHtoDAsync(address(to), from, bytes, stream), "cuMemcpyHtoDAsync");
}

void copy_to_host(const Context& context, void* to, const void* from, size_t bytes,
                  StreamHandle stream) {
  const ContextGuard guard(context);
  check(driver().cuMemcpyDtoHAsync(to, address(from), bytes, stream), "cuMemcpyDtoHAsync");
}

void copy_lines_to_host(const Context& context, void* to, const void* from, size_t width,
                        size_t pitch, size_t height, StreamHandle stream) {
  const ContextGuard guard(context);
  const CopyLines copy{{0, 0, kDeviceMemory, nullptr, address(from), nullptr, pitch},
                       {0, 0, kHostMemory, to, 0, nullptr, width},
                       width,
                       height};
  check(driver().cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
}

void copy_on_device(const Context& context, void* to, const void* from, size_t bytes,
                    StreamHandle stream) {
  const ContextGuard guard(context);
  check(driver().cuMemcpyDtoDAsync(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
}

void fill(const Context& context, void* to, unsigned char value, size_t bytes,
          StreamHandle stream) {
  const ContextGuard guard(context);
  check(driver().cuMemsetD8Async(address(to), value, bytes, stream), "cuMemsetD8Async");
}

void Graph::launch(StreamHandle stream) const {
  const ContextGuard guard(*exec_.get_deleter().context);
  check(driver().cuGraphLaunch(exec_.get(), stream), "cuGraphLaunch");
}

Capture::Capture(ContextPointer context, StreamHandle stream)
    : context_(std::move(context)), stream_(stream) {
  const ContextGuard guard(*context_);
  check(driver().cuStreamBeginCapture(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
}

Capture::~Capture() {
  if (stream_ == nullptr) return;
  GraphHandle graph = nullptr;
  if (driver().cuStreamEndCapture(stream_, &graph) == 0 && graph != nullptr)
    driver().cuGraphDestroy(graph);
}

Graph Capture::finish() {
  const ContextGuard guard(*context_);
  GraphHandle graph = nullptr;
  check(driver().cuStreamEndCapture(std::exchange(stream_, nullptr), &graph), "cuStreamEndCapture");
  GraphExecHandle exec = nullptr;
  const Result status = driver().cuGraphInstantiateWithFlags(&exec, graph, 0);
  driver().cuGraphDestroy(graph);
  check(status, "cuGraphInstantiateWithFlags");
  return {context_, exec};
}

}  // namespace coda::cuda
