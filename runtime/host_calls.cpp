#include "runtime/host_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "ir/diagnostic.hpp"
#include "ir/host_lookup.hpp"
#include "runtime/user_code.hpp"

namespace braid::runtime {

HostCalls::HostCalls(const ContextPtr& context, const Program& program,
                     const HostFunctions& functions)
    : context_(context), program_(&program) {
  if (program.calls.empty()) return;
  constexpr size_t kAlignment = 256;
  size_t bytes = 0;
  const auto take = [&](uint32_t view) {
    const size_t offset = bytes;
    const auto size = static_cast<size_t>(program.views[view].type.bytes());
    bytes = (bytes + size + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  std::map<std::string_view, std::shared_ptr<HostFunction>> own;
  for (const Call& c : program.calls) {
    Place& place = places_.emplace_back();
    const HostFunction& given =
        find_host_function(functions, c.function, {}, caller_text(c.op, c.place));
    std::shared_ptr<HostFunction>& function = own[c.function];
    if (!function) function = std::make_shared<HostFunction>(given);
    place.function = function;
    for (uint32_t v : c.args) {
      place.arguments.push_back(take(v));
      place.given.emplace_back(program.views[v].type);
    }
    for (uint32_t v : c.results) {
      place.results.push_back(take(v));
      place.types.push_back(program.views[v].type);
      place.made.emplace_back(program.views[v].type);
    }
    for (OwnedEvent* owned : {&place.there, &place.taken}) {
      CUevent event = nullptr;
      context->check(context->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING),
                     "cuEventCreate", text_of(c));
      *owned = OwnedEvent(context, event);
    }
  }
  void* memory = nullptr;
  context->check(context->driver->cuMemHostAlloc(&memory, std::max<size_t>(bytes, 1), 0),
                 "cuMemHostAlloc",
                 fmt::format("{} bytes for the host calls of {}", bytes, program.name));
  memory_ = OwnedHostMemory(context, memory);
}

void HostCalls::read(uint32_t call, CUstream stream, const AddressOf& address_of) {
  const Call& c = program_->calls[call];
  const Place& place = places_[call];
  for (size_t i = 0; i < c.args.size(); ++i) {
    const auto bytes = static_cast<size_t>(program_->views[c.args[i]].type.bytes());
    if (bytes == 0) continue;
    context_->check(context_->driver->cuMemcpyDtoHAsync(at(place.arguments[i]),
                                                        address_of(c.args[i]), bytes, stream),
                    "cuMemcpyDtoHAsync", text_of(c));
  }
  context_->check(context_->driver->cuEventRecord(place.there.get(), stream), "cuEventRecord",
                  text_of(c));
}

void HostCalls::wait(uint32_t call) {
  context_->check(context_->driver->cuEventSynchronize(places_[call].there.get()),
                  "cuEventSynchronize", text_of(program_->calls[call]));
}

void HostCalls::call(uint32_t call) {
  const Call& c = program_->calls[call];
  Place& place = places_[call];
  std::vector<HostTensor>&arguments = place.given, &results = place.made;
  for (size_t i = 0; i < c.args.size(); ++i) {
    std::vector<std::byte>& bytes = arguments[i].bytes;
    if (!bytes.empty()) std::memcpy(bytes.data(), at(place.arguments[i]), bytes.size());
  }
  if (const auto why = call_host_function(*place.function, arguments, place.types, results)) {
    throw_error("E0850", fmt::format("{}: {}", text_of(c), *why));
  }
  // The copies of the call before may still be under way where nothing else was waited for.
  context_->check(context_->driver->cuEventSynchronize(place.taken.get()), "cuEventSynchronize",
                  text_of(c));
  for (size_t i = 0; i < c.results.size(); ++i) {
    if (!results[i].bytes.empty()) {
      std::memcpy(at(place.results[i]), results[i].bytes.data(), results[i].bytes.size());
    }
  }
}

void HostCalls::write(uint32_t call, CUstream stream, const AddressOf& address_of) {
  const Call& c = program_->calls[call];
  for (size_t i = 0; i < c.results.size(); ++i) {
    const auto bytes = static_cast<size_t>(program_->views[c.results[i]].type.bytes());
    if (bytes == 0) continue;
    context_->check(context_->driver->cuMemcpyHtoDAsync(
                        address_of(c.results[i]), at(places_[call].results[i]), bytes, stream),
                    "cuMemcpyHtoDAsync", text_of(c));
  }
  context_->check(context_->driver->cuEventRecord(places_[call].taken.get(), stream),
                  "cuEventRecord", text_of(c));
}

}  // namespace braid::runtime
