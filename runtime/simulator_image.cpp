// The simulator's image of a module (text: a header with the length, then a record per kernel),
// and the calls that load one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "ir/diagnostic.hpp"
#include "ir/mailbox.hpp"
#include "ir/text.hpp"
#include "runtime/simulator_state.hpp"
#include "runtime/user_kernels.hpp"

namespace braid::runtime {
namespace {

constexpr std::string_view kMagic = "braid-simulator-image 3 ";
constexpr size_t kLengthDigits = 16;

/// Of the kernels that `wanted` tells.
template <class Wanted>
std::vector<std::byte> image_of(const Program& program, const Wanted& wanted) {
  std::string records;
  for (size_t number = 0; number < program.kernels.size(); ++number) {
    const Kernel& k = program.kernels[number];
    if (!wanted(k)) continue;
    const std::string body = ir::print(k.body);
    records += fmt::format("kernel {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
                           simulated_symbol(program, number), k.parts,
                           k.guard ? std::to_string(*k.guard) : "-", k.exchanges ? k.family : "-",
                           k.waits ? 1 : 0, k.workspace != 0 ? 1 : 0, k.launch.grid[0],
                           k.launch.grid[1], k.launch.grid[2], k.launch.block[0], k.launch.block[1],
                           k.launch.block[2], k.launch.shared_bytes, k.args.size(), body.size());
    for (const ArgSlot& slot : k.args) {
      records += fmt::format("{} {} {}", name_of(slot.role), name_of(slot.type.dtype),
                             slot.type.shape.rank());
      for (const int64_t extent : slot.type.shape.extents()) records += fmt::format(" {}", extent);
      records += fmt::format(" {}\n", slot.name);
    }
    const std::vector<InPlace> in_place = in_place_of_parts(k);
    records += fmt::format("{}", in_place.size());
    for (const InPlace& i : in_place) records += fmt::format(" {} {}", i.out, i.in);
    records += fmt::format("\n{}", k.parameters.size());
    for (const Parameter& p : k.parameters) {
      const bool scalar = p.slot == UINT32_MAX;
      records += scalar ? fmt::format(" {} {:.17g}", name_of(p.dtype), p.number)
                        : fmt::format(" slot {}", p.slot);
    }
    records += "\n";
    records += body + "\n";
  }
  const std::string text =
      fmt::format("{}{:0{}x}\n{}", kMagic, records.size(), kLengthDigits, records);
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

}  // namespace

std::vector<std::byte> simulator_image(const Program& program, uint32_t module) {
  return image_of(program, [&](const Kernel& k) {
    return k.code != Code::library && k.code != Code::host && k.module == module;
  });
}

std::vector<std::byte> simulator_library_image(const Program& program) {
  return image_of(program, [](const Kernel& k) { return k.code == Code::library; });
}

namespace sim {
namespace {

std::optional<Role> role_from(std::string_view name) {
  for (const Role role : {Role::in, Role::out, Role::inout}) {
    if (name_of(role) == name) return role;
  }
  return {};
}

bool read_slot(std::istream& in, ArgSlot& slot) {
  std::string role, dtype;
  int rank = 0;
  if (!(in >> role >> dtype >> rank) || rank < 0 || rank > kMaxRank) return false;
  for (int i = 0; i < rank; ++i) {
    int64_t extent = 0;
    if (!(in >> extent) || extent < 0) return false;
    slot.type.shape.push_back(extent);
  }
  const std::optional<Role> known_role = role_from(role);
  const std::optional<DType> known_type = dtype_from_name(dtype);
  if (!known_role || !known_type || !(in >> slot.name)) return false;
  slot.role = *known_role;
  slot.type.dtype = *known_type;
  return true;
}

/// Says what of the body each slot is; false with a reason if slots and body do not agree.
bool bind_slots(KernelRecord& record, std::string* why) {
  using Wanted = std::map<std::string, std::pair<Bound, TensorType>, std::less<>>;
  Wanted of_body;
  for (const ir::Op& op : record.body.ops()) {
    if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) continue;
    const Bound bound = op.kind == ir::OpKind::input                       ? Bound::input
                        : std::holds_alternative<ir::HandleAttr>(op.attrs) ? Bound::handle
                        : std::holds_alternative<ir::RingAttr>(op.attrs)   ? Bound::ring
                                                                           : Bound::param;
    of_body[std::string(record.body.strings[op.name])] = {bound, record.body.type(op.result)};
  }
  for (const ir::Output& output : record.body.outputs) {
    of_body[output.name] = {Bound::output, record.body.type(output.value)};
  }
  if (record.args.size() < record.extra_slots()) return false;
  const size_t slots = record.body_slots();
  if (record.parts == 0 || slots != of_body.size() * record.parts) {
    *why = fmt::format("kernel {} has {} arguments, its body {} in each of {} parts", record.symbol,
                       slots, of_body.size(), record.parts);
    return false;
  }
  Wanted wanted;  // by the rest of a part
  for (size_t i = 0; i < slots; ++i) {
    const ArgSlot& slot = record.args[i];
    if (wanted.empty()) wanted = of_body;
    const auto found = wanted.find(slot.name);
    if (found == wanted.end() || found->second.second != slot.type) {
      *why = fmt::format("argument '{}' of kernel {} is not in its body", slot.name, record.symbol);
      return false;
    }
    const Bound bound = found->second.first;
    const bool role_fits = bound == Bound::input   ? slot.role == Role::in
                           : bound == Bound::param ? true
                           : bound == Bound::ring  ? slot.role == Role::inout
                                                   : slot.role == Role::out;
    if (!role_fits) {
      *why = fmt::format("argument '{}' of kernel {} has role {}, which its body does not allow",
                         slot.name, record.symbol, name_of(slot.role));
      return false;
    }
    record.bound.push_back(bound);
    wanted.erase(found);
  }
  if (record.mail != Mail::none) {
    for (const Bound bound : {Bound::slot, Bound::header}) {
      if (record.args[record.bound.size()].type != kMailboxPart) {
        *why = fmt::format("kernel {} takes no slot and header of a mailbox", record.symbol);
        return false;
      }
      record.bound.push_back(bound);
    }
  }
  if (record.guard) record.bound.push_back(Bound::guard);
  if (record.workspace) record.bound.push_back(Bound::workspace);
  return true;
}

bool read_parameters(std::istream& in, KernelRecord& record) {
  size_t count = 0;
  if (!(in >> count)) return false;
  for (; count > 0; --count) {
    Parameter& p = record.parameters.emplace_back();
    std::string what;
    if (!(in >> what)) return false;
    if (what == "slot") {
      if (!(in >> p.slot) || p.slot >= record.args.size()) return false;
      continue;
    }
    const std::optional<DType> dtype = dtype_from_name(what);
    if (!dtype || !(in >> p.number)) return false;
    p.dtype = *dtype;
  }
  return true;
}

bool read_record(std::istream& in, KernelRecord& record, std::string* why) {
  *why = "the image is damaged";
  size_t slots = 0, length = 0;
  std::string guard, mail;
  auto& [grid, block, shared] = record.launch;
  if (!(in >> record.symbol >> record.parts >> guard >> mail >> record.waits >> record.workspace >>
        grid[0] >> grid[1] >> grid[2] >> block[0] >> block[1] >> block[2] >> shared >> slots >>
        length)) {
    return false;
  }
  if (guard != "-") {
    int32_t number = 0;
    const auto parsed = std::from_chars(guard.data(), guard.data() + guard.size(), number);
    if (parsed.ec != std::errc() || slots == 0) return false;
    record.guard = number;
  }
  if (mail != "-") {
    constexpr std::string_view kNames[] = {"-", "exchange", "post", "fetch"};
    const auto* const at = std::find(std::begin(kNames), std::end(kNames), mail);
    if (at == std::end(kNames) || slots < 2 || guard != "-" || record.parts != 1) return false;
    record.mail = static_cast<Mail>(at - std::begin(kNames));
  }
  for (size_t i = 0; i < slots; ++i) {
    ArgSlot slot;
    if (!read_slot(in, slot)) return false;
    record.args.push_back(std::move(slot));
  }
  size_t pairs = 0;
  if (!(in >> pairs)) return false;
  for (InPlace i; pairs > 0; --pairs) {
    if (!(in >> i.out >> i.in)) return false;
    record.in_place.push_back(i);
  }
  if (!read_parameters(in, record)) return false;
  in.get();  // the line's end
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return false;
  try {
    record.body = ir::parse(text, record.symbol);
  } catch (const Error& error) {
    *why = error.what();
    return false;
  }
  for (const ir::Op& op : record.body.ops()) {
    const auto* host = std::get_if<ir::HostAttr>(&op.attrs);
    if (host) record.function = record.body.strings[host->function];
  }
  return bind_slots(record, why);
}

}  // namespace

std::optional<std::vector<RecordPtr>> read_image(const void* image, std::string* why) {
  const char* text = static_cast<const char*>(image);
  // Stops at the first difference, so it does not read past a foreign image's end.
  if (!image || std::strncmp(text, kMagic.data(), kMagic.size()) != 0) {
    *why = "the image was not made by simulator_image";
    return {};
  }
  text += kMagic.size();
  size_t length = 0;
  const auto parsed = std::from_chars(text, text + kLengthDigits, length, 16);
  if (parsed.ec != std::errc() || parsed.ptr != text + kLengthDigits) {
    *why = "the image is damaged";
    return {};
  }
  std::istringstream in(std::string(text + kLengthDigits + 1, length));
  std::vector<RecordPtr> records;
  for (std::string word; in >> word;) {
    auto record = std::make_shared<KernelRecord>();
    if (!read_record(in, *record, why)) return {};
    records.push_back(std::move(record));
  }
  return records;
}

CUresult State::cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                  unsigned jit_count, CUlibraryOption*, void**, unsigned count) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (jit_count != 0 || count != 0) return CUDA_ERROR_NOT_SUPPORTED;
  std::string why;
  std::optional<std::vector<RecordPtr>> records = read_image(code, &why);
  if (!records) {
    reports_.push_back(std::move(why));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const uint64_t handle = new_handle();
  libraries_[handle].records = std::move(*records);
  *library = handle_of<CUlibrary>(handle);
  return CUDA_SUCCESS;
}

void State::provide(CUlibrary library, const std::shared_ptr<const HostFunctions>& functions) {
  const std::lock_guard lock(mutex_);
  if (Library* known = find(libraries_, number_of(library))) known->references = functions;
}

CUresult State::cuLibraryUnload(CUlibrary library) {
  const std::lock_guard lock(mutex_);
  const auto found = libraries_.find(number_of(library));
  if (found == libraries_.end()) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [symbol, function] : found->second.functions) functions_.erase(function);
  libraries_.erase(found);
  return ready();
}

CUresult State::cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* symbol) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Library* owner = find(libraries_, number_of(library));
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  for (const RecordPtr& record : owner->records) {
    if (record->symbol != symbol) continue;
    uint64_t& handle = owner->functions[record->symbol];
    if (handle == 0) {
      handle = new_handle();
      functions_[handle] = Function{number_of(library), record};
    }
    *kernel = handle_of<CUkernel>(handle);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult State::cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  if (!find(functions_, number_of(kernel))) return CUDA_ERROR_INVALID_HANDLE;
  *function = handle_of<CUfunction>(number_of(kernel));
  return CUDA_SUCCESS;
}

CUresult State::cuFuncLoad(CUfunction function) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  return find(functions_, number_of(function)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult State::cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  const std::lock_guard lock(mutex_);
  if (const CUresult r = ready(); r != CUDA_SUCCESS) return r;
  Function* known = find(functions_, number_of(function));
  if (!known) return CUDA_ERROR_INVALID_HANDLE;
  constexpr int kMostShared = 227 * 1024;  // sm_90
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (value < 0 || value > kMostShared) return CUDA_ERROR_INVALID_VALUE;
  known->max_shared_bytes = value;
  return CUDA_SUCCESS;
}

}  // namespace sim
}  // namespace braid::runtime
