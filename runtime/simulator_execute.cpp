// How the simulator runs kernels: arguments are read from its memory, the body is interpreted, the
// results are stored.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "ir/interpret.hpp"
#include "ir/mailbox.hpp"
#include "runtime/context.hpp"
#include "runtime/simulator_state.hpp"

namespace braid::runtime::sim {
namespace {

uint64_t bytes_of(const ArgSlot& slot) { return static_cast<uint64_t>(slot.type.bytes()); }

}  // namespace

std::vector<Range> ranges_of(const Call& call) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const ArgSlot& slot = call.record->args[i];
    if (bytes_of(slot) == 0) continue;
    const bool handle = call.record->bound[i] == Bound::handle;
    const uint64_t bytes = handle ? 1 : bytes_of(slot);
    ranges.push_back({call.args[i], call.args[i] + bytes, slot.role != Role::in, i, handle});
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

bool State::execute(const Call& call, const std::string& who, HandleValues* values) {
  if (call.record->guard) {
    const size_t last = call.args.size() - 1;
    HostTensor flag(call.record->args[last].type);
    Place place;
    if (!read_argument(call, last, who, flag, place)) return false;
    if (flag.int_at(0) != *call.record->guard) return true;
  }
  std::vector<uint32_t> parts(call.record->parts);
  std::iota(parts.begin(), parts.end(), 0);
  while (!parts.empty()) {
    std::swap(parts[random_() % parts.size()], parts.back());
    if (!execute_part(call, parts.back(), who, values)) return false;
    parts.pop_back();
  }
  return true;
}

bool State::read_argument(const Call& call, size_t slot, const std::string& who, HostTensor& value,
                          Place& place) {
  const ArgSlot& s = call.record->args[slot];
  const uint64_t bytes = bytes_of(s), address = call.args[slot];
  if (bytes == 0) return true;
  const std::string argument = fmt::format("{}: argument {} ('{}')", who, slot, s.name);
  std::string why;
  uint64_t base = 0;
  Allocation* memory = find_memory(address, bytes, &base, &why);
  if (!memory) {
    fail(CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("{}: {}", argument, why));
    return false;
  }
  if (address % static_cast<uint64_t>(size_of(s.type.dtype)) != 0) {
    fail(CUDA_ERROR_MISALIGNED_ADDRESS,
         fmt::format("{}: {:#x} is not aligned for {}", argument, address, name_of(s.type.dtype)));
    return false;
  }
  place = {memory, address - base};
  const auto first = memory->written.begin() + static_cast<int64_t>(place.offset);
  const auto last = first + static_cast<int64_t>(bytes);
  const auto poison = std::find(first, last, uint8_t{0});
  if (s.role != Role::out && poison != last) {
    fail(
        CUDA_ERROR_LAUNCH_FAILED,
        fmt::format("{} reads bytes that nothing has written: {} of {} at {:#x}, the first at "
                    "offset {}",
                    argument, std::count(first, last, uint8_t{0}), bytes, address, poison - first));
    return false;
  }
  std::memcpy(value.bytes.data(), memory->bytes.data() + place.offset, bytes);
  return true;
}

bool State::set_handle(uint64_t handle, const HostTensor& value, const std::string& who,
                       HandleValues* values) {
  if (values) {
    if (const auto known = values->find(handle); known != values->end()) {
      known->second.now = static_cast<uint32_t>(value.int_at(0));
      return true;
    }
  }
  fail(CUDA_ERROR_LAUNCH_FAILED,
       fmt::format("{} sets the value of handle {:#x}, which no conditional node of {} has", who,
                   handle, values ? "its graph" : "a graph that runs"));
  return false;
}

bool State::execute_part(const Call& call, uint32_t part, const std::string& who,
                         HandleValues* values) {
  const KernelRecord& record = *call.record;
  const size_t slots = record.body_slots() / record.parts;
  const size_t begin = part * slots, end = begin + slots;
  std::vector<Place> places(record.args.size());
  ir::TensorMap inputs, params;

  for (size_t i = begin; i < end; ++i) {
    const ArgSlot& slot = record.args[i];
    HostTensor value(slot.type);
    const Bound bound = record.bound[i];
    if (bound != Bound::handle && !read_argument(call, i, who, value, places[i])) return false;
    if (bound == Bound::input) inputs[slot.name] = widen(value);
    if (bound == Bound::param) params[slot.name] = widen(value);
  }

  HostFunctions functions;
  if (record.mail != Mail::none) {
    std::byte* parts[2] = {};  // the slot, the header
    for (size_t i = 0; i < 2; ++i) {
      HostTensor value(kMailboxPart);
      if (!read_argument(call, end + i, who, value, places[end + i])) return false;
      parts[i] = places[end + i].memory->bytes.data() + places[end + i].offset;
    }
    functions[record.function] = [&record, this, slot = parts[0], header = parts[1]](
                                     std::span<const HostTensor> arguments,
                                     std::span<HostTensor> results) {
      exchange(record, slot, header, arguments, results);
    };
  }

  ir::TensorMap outputs;
  ir::Observed sent;
  try {
    // A kernel of the mailbox hands its call over; a reference is called here.
    const bool refers = record.mail == Mail::none && call.references;
    std::optional<InHostCall> inside;
    if (refers) inside.emplace();
    outputs = ir::interpret(record.body, inputs, params, ir::Rounding::wide,
                            refers ? *call.references : functions, &sent);
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
    if (record.bound[i] == Bound::ring) {
      std::byte* const memory = places[i].memory->bytes.data() + places[i].offset;
      RingControl control;
      std::memcpy(&control, memory, sizeof control);
      if (!send(record.body, sent.messages, control, who)) return false;
      std::memcpy(memory, &control, sizeof control);
      continue;
    }
    if (record.bound[i] == Bound::handle && !params.contains(slot.name)) continue;
    const ir::TensorMap& results = record.bound[i] == Bound::output ? outputs : params;
    const HostTensor value = narrow(results.at(slot.name));
    if (record.bound[i] == Bound::handle) {
      if (!set_handle(call.args[i], value, who, values)) return false;
      continue;
    }
    std::memcpy(places[i].memory->bytes.data() + places[i].offset, value.bytes.data(),
                value.bytes.size());
    std::fill_n(places[i].memory->written.begin() + static_cast<int64_t>(places[i].offset),
                value.bytes.size(), uint8_t{1});
  }
  return !record.workspace || scramble(call, who);
}

bool State::scramble(const Call& call, const std::string& who) {
  const size_t last = call.args.size() - 1;
  HostTensor unused(call.record->args[last].type);
  Place place;
  if (!read_argument(call, last, who, unused, place)) return false;
  const auto first = static_cast<std::ptrdiff_t>(place.offset);
  const auto count = static_cast<std::ptrdiff_t>(unused.bytes.size());
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    place.memory->bytes[static_cast<size_t>(first + i)] = static_cast<std::byte>(random_());
  }
  std::fill_n(place.memory->written.begin() + first, count, uint8_t{0});
  return true;
}

CUresult State::cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void** params, void** extra) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  const Function* known = find(functions_, number_of(function));
  StreamState* state = find_stream(number_of(stream));
  if (!known || !state) return CUDA_ERROR_INVALID_HANDLE;
  Call call;
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  if (const CUresult r = check_launch(*known, shape, params, extra, &call); r != CUDA_SUCCESS) {
    return r;
  }
  if (state->capture) return capture_launch(*state->capture, std::move(call));
  if (failed_ != CUDA_SUCCESS) return CUDA_SUCCESS;
  const std::string who = "a launch of " + call.record->symbol;
  if (!room_for(bytes_to_run(call), "to simulate " + who)) return CUDA_ERROR_OUT_OF_MEMORY;
  begin_operation(number_of(stream));
  touch(number_of(stream), ranges_of(call), who);
  if (failed_ == CUDA_SUCCESS) execute(call, who, nullptr);
  return CUDA_SUCCESS;
}

}  // namespace braid::runtime::sim
