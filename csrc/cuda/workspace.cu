// Counters for launches whose blocks share an output.
//
// The last block of a launch leaves its counters at zero, so a counter serves any number of launches as long as no two
// of them run at once. Launches on one stream do not; a captured launch may be replayed at any time on any stream, so
// it gets counters of its own, which come back when its graph and all graphs instantiated from it are gone.
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/policy.h"
#include "cuda/dispatch.cuh"
#include "cuda/launch.h"

namespace gpureduce::cuda {
namespace {

constexpr size_t kPartialBytes = 64 * 1024;  // beside the counters of a stream
constexpr size_t kStreamCounterBytes = policy::kMostCounters * sizeof(unsigned);
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kSmallestSlot = 256;  // a memory transaction is never shared

// Zeroed device memory in slots of a power of two. Thread-safe; slots come back through release().
class ZeroedPool {
 public:
  cudaError_t acquire(size_t bytes, void*& slot) {
    const std::lock_guard lock(mutex_);
    const int size_class = class_of(bytes);
    auto& free = free_[size_class];
    if (free.empty()) {
      if (const cudaError_t error = grow(size_class); error != cudaSuccess) return error;
    }
    slot = free.back();
    free.pop_back();
    return cudaSuccess;
  }

  void release(void* slot, size_t bytes) {
    const std::lock_guard lock(mutex_);
    free_[class_of(bytes)].push_back(slot);
  }

 private:
  static int class_of(size_t bytes) { return std::bit_width(std::bit_ceil(std::max(bytes, kSmallestSlot))) - 1; }

  // Allocates and zeroes a chunk, also while this or another thread is capturing: in relaxed mode on a stream of its
  // own that nobody captures. This happens on the first call and rarely after it.
  cudaError_t grow(int size_class) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess) return error;
    const size_t slot_bytes = size_t{1} << size_class, bytes = std::max(kChunkBytes, slot_bytes);
    void* chunk = nullptr;
    cudaStream_t stream = nullptr;
    error = cudaMalloc(&chunk, bytes);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaMemsetAsync(chunk, 0, bytes, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (stream != nullptr) cudaStreamDestroy(stream);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess) {
      cudaFree(chunk);
      cudaGetLastError();  // an allocation that failed is reported once, by us
      return error;
    }
    for (size_t at = 0; at < bytes; at += slot_bytes) free_[size_class].push_back(static_cast<char*>(chunk) + at);
    return cudaSuccess;
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, 64> free_;
};

struct DeviceState {
  ZeroedPool pool;
  std::mutex mutex;
  std::map<unsigned long long, void*> of_stream;  // by the stream's id, which is never used again
};

// Lives until the process ends: graphs may outlive every static object.
DeviceState& device_state(int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& states = *new std::map<int, std::unique_ptr<DeviceState>>;
  const std::lock_guard lock(mutex);
  auto& state = states[device];
  if (!state) state = std::make_unique<DeviceState>();
  return *state;
}

struct CapturedSlot {
  ZeroedPool* pool;
  void* slot;
  size_t bytes;
};

// Hands the slot to the graph: it is released when the graph is.
cudaError_t give_to_graph(cudaGraph_t graph, CapturedSlot owned) {
  auto* slot = new CapturedSlot(owned);
  const auto release = [](void* data) {
    const std::unique_ptr<CapturedSlot> slot(static_cast<CapturedSlot*>(data));
    slot->pool->release(slot->slot, slot->bytes);
  };
  cudaUserObject_t object;
  cudaError_t error = cudaUserObjectCreate(&object, slot, release, 1, cudaUserObjectNoDestructorSync);
  if (error != cudaSuccess) {
    release(slot);
    return error;
  }
  error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error != cudaSuccess) cudaUserObjectRelease(object, 1);
  return error;
}

}  // namespace

size_t max_workspace_partial_bytes() {
  return kPartialBytes;
}

cudaError_t acquire_workspace(int device, cudaStream_t stream, int64_t num_counters, size_t partial_bytes,
                              Workspace& workspace) {
  DeviceState& state = device_state(device);
  const size_t counter_bytes = (num_counters * sizeof(unsigned) + kSmallestSlot - 1) / kSmallestSlot * kSmallestSlot;
  if (partial_bytes > kPartialBytes) partial_bytes = 0;
  cudaStreamCaptureStatus status;
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
  if (error != cudaSuccess) return error;

  void* slot = nullptr;
  size_t partials_at = counter_bytes;
  if (status == cudaStreamCaptureStatusActive) {
    const size_t bytes = counter_bytes + partial_bytes;
    error = state.pool.acquire(bytes, slot);
    if (error == cudaSuccess) error = give_to_graph(graph, {&state.pool, slot, bytes});
    if (error != cudaSuccess) return error;
  } else {
    if (counter_bytes > kStreamCounterBytes) return cudaErrorInvalidValue;
    partials_at = kStreamCounterBytes;
    unsigned long long id = 0;
    error = cudaStreamGetId(stream, &id);
    if (error != cudaSuccess) return error;
    const std::lock_guard lock(state.mutex);
    void*& of_stream = state.of_stream[id];
    if (of_stream == nullptr) {
      error = state.pool.acquire(kStreamCounterBytes + kPartialBytes, of_stream);
      if (error != cudaSuccess) return error;
    }
    slot = of_stream;
  }
  workspace.counters = static_cast<unsigned*>(slot);
  workspace.partials = partial_bytes > 0 ? static_cast<char*>(slot) + partials_at : nullptr;
  return cudaSuccess;
}

bool overlaps_launches() {
  static constexpr int kMaxDevices = 64, kUnknown = 0, kNo = 1, kYes = 2;
  static std::array<std::atomic<int>, kMaxDevices> known{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMaxDevices) return false;
  int answer = known[device].load(std::memory_order_relaxed);
  if (answer == kUnknown) {
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    answer = major >= 9 ? kYes : kNo;
    known[device].store(answer, std::memory_order_relaxed);
  }
  return answer == kYes;
}

}  // namespace gpureduce::cuda
