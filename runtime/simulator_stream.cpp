// Streams and events of the simulator. Work is done inside the call that enqueues it; what would
// have been ordered on a GPU is kept as vector clocks, so that a missing wait shows in every run.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

bool overlap(const Range& a, const Range& b) { return a.low < b.high && b.low < a.high; }

bool covers(const Range& outer, const Range& inner) {
  return outer.low <= inner.low && inner.high <= outer.high;
}

const char* verb(const Range& range) { return range.write ? "writes" : "reads"; }

}  // namespace

StreamState* State::find_stream(uint64_t handle) { return find(streams_, handle); }

void State::wait_for(const Clock& clock) {
  merge(host_, clock);
  std::erase_if(uploads_, [&](const Upload& u) {
    const auto known = host_.find(u.stream);
    if (known == host_.end() || known->second < u.sequence) return false;
    if (hash_of(u.from, u.bytes) != u.hash) {
      fail(CUDA_ERROR_LAUNCH_FAILED,
           fmt::format("{} bytes of page-locked memory changed before the host had waited for the "
                       "copy of them",
                       u.bytes));
    }
    return true;
  });
}

void State::begin_operation(uint64_t stream) {
  StreamState& state = streams_.at(stream);
  merge(state.clock, host_);
  if (stream == 0) {
    for (const auto& [handle, other] : streams_) {
      if (other.blocking) merge(state.clock, other.clock);
    }
  } else if (state.blocking) {
    merge(state.clock, streams_.at(0).clock);
  }
  ++state.clock[stream];
}

void State::touch(uint64_t stream, const std::vector<Range>& ranges, const std::string& what) {
  const Clock& clock = streams_.at(stream).clock;
  const auto text = std::make_shared<const std::string>(what);
  const auto ordered = [&](const Touch& t) {
    const auto known = clock.find(t.stream);
    return known != clock.end() && known->second >= t.sequence;
  };
  for (const Range& range : ranges) {
    std::string why;
    Allocation* memory = find_memory(range.low, range.high - range.low, nullptr, &why);
    if (!memory) continue;  // reported where the access is made
    for (const Touch& t : memory->touches) {
      const bool same_operation = t.stream == stream && t.sequence == clock.at(stream);
      if (same_operation || !overlap(range, t.range) || !(range.write || t.range.write) ||
          ordered(t) || !options_.report_races) {
        continue;
      }
      fail(CUDA_ERROR_LAUNCH_FAILED,
           fmt::format("race between streams: {} {} bytes {:#x} to {:#x}, {} {} bytes {:#x} to "
                       "{:#x}, and nothing orders the two",
                       *t.what, verb(t.range), t.range.low, t.range.high, what, verb(range),
                       range.low, range.high));
      break;
    }
    // A later access that is ordered behind this one is ordered behind what this one follows.
    std::erase_if(memory->touches, [&](const Touch& t) {
      return covers(range, t.range) && (range.write || !t.range.write) && ordered(t);
    });
    memory->touches.push_back({range, stream, clock.at(stream), text});
  }
}

CUresult State::cuStreamCreate(CUstream* stream, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t handle = new_handle();
  streams_[handle].blocking = flags != CU_STREAM_NON_BLOCKING;
  *stream = handle_of<CUstream>(handle);
  return CUDA_SUCCESS;
}

CUresult State::cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(mutex_);
  const StreamState* state = stream ? find_stream(number_of(stream)) : nullptr;
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (state->capture && state->capture->own) destroy(state->capture->graph);
  streams_.erase(number_of(stream));
  return ready();
}

CUresult State::cuStreamSynchronize(CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const StreamState* state = find_stream(number_of(stream));
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (state->capture) return forbidden_on(number_of(stream));
  wait_for(state->clock);
  return observe();
}

CUresult State::cuStreamQuery(CUstream stream) { return cuStreamSynchronize(stream); }

CUresult State::cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  StreamState* state = find_stream(number_of(stream));
  const EventState* waited = find(events_, number_of(event));
  if (!state || !waited) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (state->capture) return forbidden_on(number_of(stream));
  merge(state->clock, waited->clock);
  return CUDA_SUCCESS;
}

CUresult State::cuEventCreate(CUevent* event, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const uint64_t handle = new_handle();
  events_[handle].timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = handle_of<CUevent>(handle);
  return CUDA_SUCCESS;
}

CUresult State::cuEventDestroy(CUevent event) {
  const std::lock_guard lock(mutex_);
  if (events_.erase(number_of(event)) == 0) return CUDA_ERROR_INVALID_HANDLE;
  return ready();
}

CUresult State::cuEventRecord(CUevent event, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  EventState* state = find(events_, number_of(event));
  if (!state || !find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  if (find_stream(number_of(stream))->capture) return forbidden_on(number_of(stream));
  begin_operation(number_of(stream));
  state->clock = streams_.at(number_of(stream)).clock;
  state->recorded = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}

CUresult State::cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

CUresult State::cuEventSynchronize(CUevent event) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const EventState* state = find(events_, number_of(event));
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  wait_for(state->clock);
  return observe();
}

CUresult State::cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const EventState* first = find(events_, number_of(start));
  const EventState* second = find(events_, number_of(end));
  if (!first || !second || !first->timing || !second->timing || !first->recorded ||
      !second->recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(*second->recorded - *first->recorded).count();
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
