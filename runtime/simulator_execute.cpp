// How the simulator runs kernels: arguments are read from its memory, the body is interpreted, the
// results are stored.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>

#include "ir/interpret.hpp"
#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

uint64_t bytes_of(const ArgSlot& slot) { return static_cast<uint64_t>(slot.type.bytes()); }

}  // namespace

std::string call_text(const std::vector<Call>& calls, size_t index) {
  return fmt::format("node {} ({})", index, calls[index].record->symbol);
}

std::vector<Range> ranges_of(const Call& call) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const ArgSlot& slot = call.record->args[i];
    if (bytes_of(slot) == 0) continue;
    ranges.push_back({call.args[i], call.args[i] + bytes_of(slot), slot.role != Role::in, i});
  }
  return ranges;
}

uint64_t bytes_to_run(const Call& call) {
  constexpr uint64_t kMost = uint64_t{1} << 56;  // so that a few of them add up
  const auto capped = [&](int64_t bytes) { return std::min(static_cast<uint64_t>(bytes), kMost); };
  uint64_t bytes = capped(ir::interpret_bytes(call.record->body));
  for (const ArgSlot& slot : call.record->args) {
    bytes += capped(slot.type.bytes()) + 8 * capped(slot.type.shape.numel());
  }
  return bytes;
}

bool State::execute(const Call& call, const std::string& who) {
  std::vector<uint32_t> parts(call.record->parts);
  std::iota(parts.begin(), parts.end(), 0);
  while (!parts.empty()) {
    std::swap(parts[random_() % parts.size()], parts.back());
    if (!execute_part(call, parts.back(), who)) return false;
    parts.pop_back();
  }
  return true;
}

bool State::execute_part(const Call& call, uint32_t part, const std::string& who) {
  const KernelRecord& record = *call.record;
  const size_t slots = record.args.size() / record.parts;
  const size_t begin = part * slots, end = begin + slots;
  struct Place {
    Allocation* memory = nullptr;
    uint64_t offset = 0;
  };
  std::vector<Place> places(record.args.size());
  ir::TensorMap inputs, params;

  for (size_t i = begin; i < end; ++i) {
    const ArgSlot& slot = record.args[i];
    const uint64_t bytes = bytes_of(slot);
    const std::string argument = fmt::format("{}: argument {} ('{}')", who, i, slot.name);
    HostTensor value(slot.type);
    if (bytes > 0) {
      std::string why;
      uint64_t base = 0;
      Allocation* memory = find_memory(call.args[i], bytes, &base, &why);
      if (!memory) {
        fail(CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("{}: {}", argument, why));
        return false;
      }
      if (call.args[i] % static_cast<uint64_t>(size_of(slot.type.dtype)) != 0) {
        fail(CUDA_ERROR_MISALIGNED_ADDRESS, fmt::format("{}: {:#x} is not aligned for {}", argument,
                                                        call.args[i], name_of(slot.type.dtype)));
        return false;
      }
      places[i] = {memory, call.args[i] - base};
      const auto first = memory->written.begin() + static_cast<int64_t>(places[i].offset);
      const auto last = first + static_cast<int64_t>(bytes);
      const auto poison = std::find(first, last, uint8_t{0});
      if (slot.role != Role::out && poison != last) {
        fail(CUDA_ERROR_LAUNCH_FAILED,
             fmt::format("{} reads bytes that nothing has written: {} of {} at {:#x}, the first at "
                         "offset {}",
                         argument, std::count(first, last, uint8_t{0}), bytes, call.args[i],
                         poison - first));
        return false;
      }
      std::memcpy(value.bytes.data(), memory->bytes.data() + places[i].offset, bytes);
    }
    if (record.bound[i] == Bound::input) inputs[slot.name] = widen(value);
    if (record.bound[i] == Bound::param) params[slot.name] = widen(value);
  }

  ir::TensorMap outputs;
  try {
    outputs = ir::interpret(record.body, inputs, params, ir::Rounding::wide);
  } catch (const std::bad_alloc&) {
    fail(CUDA_ERROR_OUT_OF_MEMORY, fmt::format("{}: this machine's memory is used up", who));
    return false;
  } catch (const std::exception& error) {
    fail(CUDA_ERROR_LAUNCH_FAILED, fmt::format("{}: {}", who, error.what()));
    return false;
  }

  for (size_t i = begin; i < end; ++i) {
    const ArgSlot& slot = record.args[i];
    if (slot.role == Role::in || bytes_of(slot) == 0) continue;
    const ir::TensorMap& results = record.bound[i] == Bound::param ? params : outputs;
    const HostTensor value = narrow(results.at(slot.name));
    std::memcpy(places[i].memory->bytes.data() + places[i].offset, value.bytes.data(),
                value.bytes.size());
    std::fill_n(places[i].memory->written.begin() + static_cast<int64_t>(places[i].offset),
                value.bytes.size(), uint8_t{1});
  }
  return true;
}

CUresult State::launch(Exec& exec, uint64_t stream) {
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  uint64_t most = 0;
  size_t largest = 0;
  for (size_t n = 0; n < exec.calls.size(); ++n) {
    const uint64_t bytes = bytes_to_run(exec.calls[n]);
    if (bytes > most) std::tie(most, largest) = std::pair(bytes, n);
  }
  if (most > 0 && !room_for(most, "to simulate " + call_text(exec.calls, largest))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  begin_operation(stream);
  StreamState& state = streams_.at(stream);
  merge(state.clock, exec.clock);
  exec.clock = state.clock;

  if (options_.report_races) {
    if (!exec.races) exec.races = find_races(exec.calls, exec.before);
    for (const std::string& race : *exec.races) fail(CUDA_ERROR_LAUNCH_FAILED, race);
    if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  }
  for (size_t n = 0; n < exec.calls.size(); ++n) {
    touch(stream, ranges_of(exec.calls[n]), call_text(exec.calls, n));
  }
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;

  std::vector<std::vector<uint32_t>> after(exec.calls.size());
  std::vector<size_t> waiting(exec.calls.size());
  std::vector<uint32_t> ready_nodes;
  for (uint32_t n = 0; n < exec.calls.size(); ++n) {
    waiting[n] = exec.before[n].size();
    for (const uint32_t from : exec.before[n]) after[from].push_back(n);
    if (waiting[n] == 0) ready_nodes.push_back(n);
  }
  while (!ready_nodes.empty()) {
    std::swap(ready_nodes[random_() % ready_nodes.size()], ready_nodes.back());
    const uint32_t n = ready_nodes.back();
    ready_nodes.pop_back();
    if (!execute(exec.calls[n], call_text(exec.calls, n))) return CUDA_SUCCESS;
    for (const uint32_t next : after[n]) {
      if (--waiting[next] == 0) ready_nodes.push_back(next);
    }
  }
  return CUDA_SUCCESS;
}

CUresult State::cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Exec* launched = find(execs_, number_of(exec));
  if (!launched || !find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  return launch(*launched, number_of(stream));
}

CUresult State::cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void** params, void** extra) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const Function* known = find(functions_, number_of(function));
  if (!known || !find_stream(number_of(stream))) return CUDA_ERROR_INVALID_HANDLE;
  Call call;
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  if (const CUresult r = check_launch(*known, shape, params, extra, &call); r != CUDA_SUCCESS) {
    return r;
  }
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  const std::string who = "a launch of " + call.record->symbol;
  if (!room_for(bytes_to_run(call), "to simulate " + who)) return CUDA_ERROR_OUT_OF_MEMORY;
  begin_operation(number_of(stream));
  touch(number_of(stream), ranges_of(call), who);
  if (failed_ == CUDA_SUCCESS) execute(call, who);
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
