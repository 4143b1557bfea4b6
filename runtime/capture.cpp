#include "runtime/capture.hpp"

#include <fmt/format.h>

#include "runtime/user_code.hpp"

namespace braid::runtime {
namespace {

/// What became of a capture that had begun.
struct Ended {
  std::vector<CUgraphNode> tails;
  CUgraph graph = nullptr;  // as the driver gives it; null if the capture failed
  std::string failure;
};

std::string driver_says(const char* call, CUresult result) {
  return fmt::format("{}: {} ({})", call, result_name(result), static_cast<int>(result));
}

/// Lets the function enqueue on a stream that is capturing, and ends the capture.
Ended run(const ContextPtr& context, CUstream stream, const Enqueue& enqueue) {
  Driver& driver = *context->driver;
  Ended ended;
  try {
    const InHostCall inside;
    enqueue(stream);
  } catch (...) {
    ended.failure = thrown_text();
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const CUgraphNode* tails = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUresult asked =
      driver.cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tails, &edges, &count);
  if (asked == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    ended.tails.assign(tails, tails + count);
  }
  if (asked == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) {
    if (ended.failure.empty()) ended.failure = "it ended the capture of its stream";
    return ended;
  }
  const CUresult result = driver.cuStreamEndCapture(stream, &ended.graph);
  if (result != CUDA_SUCCESS) {
    ended.graph = nullptr;
    // An end that fails for another reason than the capture may have left it open.
    CUgraph second = nullptr;
    status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE &&
        driver.cuStreamEndCapture(stream, &second) == CUDA_SUCCESS) {
      ended.graph = second;
    }
    if (ended.failure.empty()) {
      ended.failure =
          "it does what cannot be captured, such as waiting for its stream or "
          "allocating memory: " +
          driver_says("cuStreamEndCapture", result);
    }
  } else if (asked != CUDA_SUCCESS && ended.failure.empty()) {
    ended.failure = driver_says("cuStreamGetCaptureInfo", asked);
  }
  return ended;
}

}  // namespace

std::string try_capture(const ContextPtr& context, CUstream stream, const Enqueue& enqueue) {
  context->check(context->driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "cuStreamBeginCapture");
  const Ended ended = run(context, stream, enqueue);
  if (ended.graph) context->driver->cuGraphDestroy(ended.graph);
  context->require_alive();
  return ended.failure;
}

Captured capture_into(const ContextPtr& context, CUstream stream, CUgraph graph,
                      const std::vector<CUgraphNode>& from,
                      const std::vector<CUgraphEdgeData>& edges, const Enqueue& enqueue) {
  context->check(context->driver->cuStreamBeginCaptureToGraph(stream, graph, from.data(),
                                                              edges.data(), from.size(),
                                                              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "cuStreamBeginCaptureToGraph");
  Ended ended = run(context, stream, enqueue);
  context->require_alive();
  Captured captured{std::move(ended.tails), std::move(ended.failure), false};
  captured.graph_is_gone = !captured.failure.empty() && !ended.graph;
  return captured;
}

}  // namespace braid::runtime
