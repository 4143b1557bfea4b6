// Capture in the simulator: a launch on a capturing stream becomes a node. What the driver does not
// allow then ends the capture as it does there; what it allows and Braid's own runtime never does,
// copies, events and graphs on such a stream, is refused in the same way.
#include <algorithm>

#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {

CUresult State::forbidden_in_capture() {
  CUresult result = CUDA_SUCCESS;
  for (auto& [handle, stream] : streams_) {
    if (!stream.capture || stream.capture->thread != std::this_thread::get_id()) continue;
    stream.capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult State::forbidden_on(uint64_t stream) {
  streams_.at(stream).capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult State::capture_launch(Capture& capture, Call call) {
  if (capture.invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Graph* graph = find(graphs_, capture.graph);
  if (!graph) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Node added;
  added.call = std::move(call);
  for (size_t i = 0; i < capture.tails.size(); ++i) {
    added.incoming.push_back({nodes_.at(number_of(capture.tails[i])).second, capture.edges[i]});
  }
  added.handle = new_handle();
  nodes_[added.handle] = {capture.graph, static_cast<uint32_t>(graph->nodes.size())};
  capture.tails = {handle_of<CUgraphNode>(added.handle)};
  capture.edges = {CUgraphEdgeData{}};
  graph->nodes.push_back(std::move(added));
  return CUDA_SUCCESS;
}

CUresult State::cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  StreamState* state = find_stream(number_of(stream));
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_NOT_SUPPORTED;
  if (state->capture) return CUDA_ERROR_ILLEGAL_STATE;
  const uint64_t graph = new_handle();
  graphs_[graph];
  state->capture = Capture{new_handle(), graph, true, false, {}, {}, std::this_thread::get_id()};
  return CUDA_SUCCESS;
}

CUresult State::cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* from,
                                            const CUgraphEdgeData* edges, size_t count,
                                            CUstreamCaptureMode mode) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  StreamState* state = find_stream(number_of(stream));
  if (!state || !find(graphs_, number_of(graph))) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_NOT_SUPPORTED;
  if (state->capture) return CUDA_ERROR_ILLEGAL_STATE;
  Capture capture{new_handle(), number_of(graph), false, false, {}, {}, std::this_thread::get_id()};
  for (size_t i = 0; i < count; ++i) {
    const auto* known = find(nodes_, number_of(from[i]));
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    const bool twice = std::find(from, from + i, from[i]) != from + i;
    if (known->first != capture.graph || twice) return CUDA_ERROR_INVALID_VALUE;
    capture.tails.push_back(from[i]);
    capture.edges.push_back(edges ? edges[i] : CUgraphEdgeData{});
  }
  state->capture = std::move(capture);
  return CUDA_SUCCESS;
}

CUresult State::cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult State::cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                       cuuint64_t* id, CUgraph* graph, const CUgraphNode** from,
                                       const CUgraphEdgeData** edges, size_t* count) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const StreamState* state = find_stream(number_of(stream));
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  *status = !state->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : state->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  const Capture& capture = *state->capture;
  if (id) *id = capture.id;
  if (graph) *graph = handle_of<CUgraph>(capture.graph);
  if (from) *from = capture.tails.data();
  if (edges) *edges = capture.edges.data();
  if (count) *count = capture.tails.size();
  return CUDA_SUCCESS;
}

CUresult State::cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  StreamState* state = find_stream(number_of(stream));
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (!state->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (state->capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const Capture capture = std::move(*state->capture);
  state->capture.reset();
  *graph = nullptr;
  const Graph* made = find(graphs_, capture.graph);
  if (!capture.invalid && made) {
    *graph = handle_of<CUgraph>(capture.graph);
    return CUDA_SUCCESS;
  }
  // As the driver does with a graph of one's own, too. One of a conditional node's body has crashed
  // some drivers.
  if (made && made->owner != 0) {
    reports_.push_back("an invalid capture into a conditional node");
  } else if (made) {
    destroy(capture.graph);
  }
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

}  // namespace braid::runtime::sim
