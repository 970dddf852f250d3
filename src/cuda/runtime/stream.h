// SPDX-License-Identifier: Apache-2.0
// Streams, events, device memory and captured graphs. Each owner keeps its context alive and frees
// what it owns there; functions leave the caller's current context as it was. Frameworks pass
// streams of their own, so whatever works on a stream takes its handle.
#pragma once

#include <memory>
#include <type_traits>

#include "cuda/runtime/context.h"

namespace coda::cuda {

/// Frees by `Free`, in the context that the object belongs to; failures are ignored, since at the
/// end of a process the driver may be gone.
template <auto Free>
struct Freer {
  ContextPointer context;
  template <class T>
  void operator()(T* object) const {
    ContextHandle popped = nullptr;
    if (driver().cuCtxPushCurrent(context->handle()) != 0) return;
    Free(object);
    driver().cuCtxPopCurrent(&popped);
  }
};

template <class Handle, auto Free>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Freer<Free>>;

class Stream {
 public:
  /// A stream that does not wait for the default stream.
  explicit Stream(ContextPointer context);
  StreamHandle handle() const { return stream_.get(); }
  const ContextPointer& context() const { return stream_.get_deleter().context; }
  /// Waits until all of its work is done.
  void synchronise() const;

 private:
  static void free(StreamHandle stream) { driver().cuStreamDestroy(stream); }
  Owned<StreamHandle, &Stream::free> stream_;
};

/// A point in a stream's work, with its time.
class Event {
 public:
  explicit Event(ContextPointer context);
  EventHandle handle() const { return event_.get(); }
  void record(StreamHandle stream) const;
  /// Waits until the work before the event is done.
  void synchronise() const;

 private:
  static void free(EventHandle event) { driver().cuEventDestroy(event); }
  Owned<EventHandle, &Event::free> event_;
};

/// Milliseconds between two events, both done.
float elapsed_ms(const Event& start, const Event& stop);

/// Device memory; of size 0, a null pointer.
class Memory {
 public:
  Memory() = default;
  Memory(ContextPointer context, size_t bytes);
  void* data() const { return data_.get(); }
  DevicePointer address() const { return reinterpret_cast<DevicePointer>(data_.get()); }
  size_t size() const { return size_; }

 private:
  static void free(void* data) { driver().cuMemFree(reinterpret_cast<DevicePointer>(data)); }
  Owned<void*, &Memory::free> data_;
  size_t size_ = 0;
};

/// Queued on `stream`; host memory must live until the work is done.
void copy_to_device(const Context& context, void* to, const void* from, size_t bytes,
                    StreamHandle stream);
void copy_to_host(const Context& context, void* to, const void* from, size_t bytes,
                  StreamHandle stream);
/// Copies `height` lines of `width` bytes: `pitch` bytes apart there, without gaps here.
void copy_lines_to_host(const Context& context, void* to, const void* from, size_t width,
                        size_t pitch, size_t height, StreamHandle stream);
void copy_on_device(const Context& context, void* to, const void* from, size_t bytes,
                    StreamHandle stream);
void fill(const Context& context, void* to, unsigned char value, size_t bytes, StreamHandle stream);

/// Work that was captured, ready to be launched again and again.
class Graph {
 public:
  void launch(StreamHandle stream) const;

 private:
  friend class Capture;
  Graph(ContextPointer context, GraphExecHandle exec) : exec_(exec, {std::move(context)}) {}
  static void free(GraphExecHandle exec) { driver().cuGraphExecDestroy(exec); }
  Owned<GraphExecHandle, &Graph::free> exec_;
};

/// While it lives, work queued on `stream` by this thread is recorded instead of run.
class Capture {
 public:
  Capture(ContextPointer context, StreamHandle stream);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();
  Graph finish();

 private:
  ContextPointer context_;
  StreamHandle stream_;  // null once finished
};

}  // namespace coda::cuda
