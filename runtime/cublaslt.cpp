#include "runtime/cublaslt.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "ir/diagnostic.hpp"
#include "runtime/cublaslt_found.hpp"
#include "runtime/cuda_library.hpp"

namespace braid::runtime {
namespace {

// The part of cublasLt.h (12 and 13) that is used here: names, numbers and layouts are the
// library's.
using LtHandle = struct LtContext*;
using Descriptor = struct LtOpaque*;  // of a product, a matrix or a preference
enum class Status : int { success = 0 };
enum class ComputeType : int { f32 = 68, f32_fast_tf32 = 77 };
enum class DataType : int { f32 = 0, f16 = 2, bf16 = 14 };
enum class Layout : int { batch_count = 5, batch_stride = 6 };
enum class Desc : int { trans_a = 3, trans_b = 4, epilogue = 7, bias_pointer = 8 };
enum class Preference : int {
  workspace_bytes = 1,
  alignment_a = 5,
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
};
constexpr uint32_t kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32;
constexpr int32_t kPlain = 0, kTransposed = 1;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

/// Tensors lie on 256 bytes, what is bound by the caller on 16.
constexpr uint32_t kAlignment = 16;

/// The library's functions.
struct Table {
  const char* (*status_string)(Status);
  Status (*create)(LtHandle*);
  Status (*destroy)(LtHandle);
  Status (*desc_create)(Descriptor*, ComputeType, DataType);
  Status (*desc_destroy)(Descriptor);
  Status (*desc_set)(Descriptor, Desc, const void*, size_t);
  Status (*layout_create)(Descriptor*, DataType, uint64_t, uint64_t, int64_t);
  Status (*layout_destroy)(Descriptor);
  Status (*layout_set)(Descriptor, Layout, const void*, size_t);
  Status (*preference_create)(Descriptor*);
  Status (*preference_destroy)(Descriptor);
  Status (*preference_set)(Descriptor, Preference, const void*, size_t);
  Status (*heuristic)(LtHandle, Descriptor product, Descriptor a, Descriptor b, Descriptor c,
                      Descriptor d, Descriptor preference, int asked, Heuristic*, int* found);
  Status (*matmul)(LtHandle, Descriptor product, const void* alpha, const void* a, Descriptor,
                   const void* b, Descriptor, const void* beta, const void* c, Descriptor, void* d,
                   Descriptor, const Algorithm*, void* workspace, size_t bytes, CUstream);
};

template <class F>
bool resolve(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool resolve_all(void* library, Table& t) {
  return resolve(library, "cublasLtGetStatusString", t.status_string) &&
         resolve(library, "cublasLtCreate", t.create) &&
         resolve(library, "cublasLtDestroy", t.destroy) &&
         resolve(library, "cublasLtMatmulDescCreate", t.desc_create) &&
         resolve(library, "cublasLtMatmulDescDestroy", t.desc_destroy) &&
         resolve(library, "cublasLtMatmulDescSetAttribute", t.desc_set) &&
         resolve(library, "cublasLtMatrixLayoutCreate", t.layout_create) &&
         resolve(library, "cublasLtMatrixLayoutDestroy", t.layout_destroy) &&
         resolve(library, "cublasLtMatrixLayoutSetAttribute", t.layout_set) &&
         resolve(library, "cublasLtMatmulPreferenceCreate", t.preference_create) &&
         resolve(library, "cublasLtMatmulPreferenceDestroy", t.preference_destroy) &&
         resolve(library, "cublasLtMatmulPreferenceSetAttribute", t.preference_set) &&
         resolve(library, "cublasLtMatmulAlgoGetHeuristic", t.heuristic) &&
         resolve(library, "cublasLtMatmul", t.matmul);
}

std::vector<std::string> candidates() {
  constexpr std::array<const char*, 2> kNames{"libcublasLt.so.13", "libcublasLt.so.12"};
  std::vector<std::string> folders;
  if (const char* nvrtc = std::getenv("BRAID_NVRTC"); nvrtc && *nvrtc) {
    folders.push_back(std::filesystem::path(nvrtc).parent_path().string());
  }
  return cuda_library_files(kNames, folders);
}

constexpr const char* kInstead =
    "compile with --dots=braid (Options::dots), which uses kernels of Braid's own";

Table load() {
  std::string tried;
  for (const std::string& file : candidates()) {
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    Table table{};
    if (library && resolve_all(library, table)) return table;
    tried += library ? fmt::format("\n  {}: it lacks functions of cuBLASLt 12", file)
                     : fmt::format("\n  {}: {}", file, ::dlerror());
  }
  throw_error("E0891", "cuBLASLt was not found; tried:" + tried,
              fmt::format("install a CUDA toolkit or the nvidia-cublas wheel and set CUDA_HOME, "
                          "or {}",
                          kInstead));
}

/// Loaded once, and never unloaded: CUDA libraries do not bear that.
const Table& table() {
  static const Table t = load();
  return t;
}

void check(Status status, const std::string& what) {
  if (status == Status::success) return;
  throw_error("E0891",
              fmt::format("cuBLASLt: {}: {} ({})", what, table().status_string(status),
                          static_cast<int>(status)),
              kInstead);
}

DataType data_type(DType t) {
  return t == DType::f16 ? DataType::f16 : t == DType::bf16 ? DataType::bf16 : DataType::f32;
}

/// Owns one descriptor.
class Owner {
 public:
  Owner() = default;
  Owner(Descriptor d, Status (*destroy)(Descriptor)) : d_(d), destroy_(destroy) {}
  ~Owner() {
    if (d_) destroy_(d_);
  }
  Owner(Owner&& o) noexcept : d_(std::exchange(o.d_, nullptr)), destroy_(o.destroy_) {}
  Owner& operator=(Owner&& o) noexcept {
    std::swap(d_, o.d_);
    std::swap(destroy_, o.destroy_);
    return *this;
  }
  Descriptor get() const { return d_; }

 private:
  Descriptor d_ = nullptr;
  Status (*destroy_)(Descriptor) = nullptr;
};

/// A matrix, or one for each of the batch: to the library, whose matrices are column-major, a
/// row-major one of `rows` rows is one of `columns` rows.
Owner layout_of(DataType type, int64_t rows, int64_t columns, int64_t batch) {
  const Table& t = table();
  Descriptor d = nullptr;
  check(t.layout_create(&d, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                        columns),
        "cublasLtMatrixLayoutCreate");
  Owner owner(d, t.layout_destroy);
  if (batch == 1) return owner;
  const auto count = static_cast<int32_t>(batch);
  const int64_t stride = rows * columns;
  check(t.layout_set(d, Layout::batch_count, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(t.layout_set(d, Layout::batch_stride, &stride, sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
  return owner;
}

}  // namespace

bool cublaslt_found() {
  try {
    table();
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct LtLibrary::Handle {
  LtHandle handle = nullptr;
  ~Handle() {
    if (handle) table().destroy(handle);
  }
};

LtLibrary::LtLibrary() : handle_(std::make_unique<Handle>()) {
  check(table().create(&handle_->handle), "cublasLtCreate");
}

LtLibrary::~LtLibrary() = default;

struct LtMatmul::Plan {
  std::shared_ptr<const LtLibrary> library;
  MatmulBody body;
  size_t workspace = 0;
  Owner product, a, b, d;
  Algorithm algorithm{};
};

// The library computes D^T = B^T A^T: its first matrix is our right operand, its rows our columns.
LtMatmul::LtMatmul(std::shared_ptr<const LtLibrary> library, const Kernel& kernel)
    : plan_(std::make_unique<Plan>()) {
  const std::optional<MatmulBody> body = matmul_body(kernel.body);
  if (!body) {
    throw_error("E0830", fmt::format("kernel {} is no matrix product of cuBLASLt", kernel.symbol));
  }
  const Table& t = table();
  Plan& p = *plan_;
  p.library = std::move(library);
  p.body = *body;
  p.workspace = static_cast<size_t>(kernel.workspace);
  Descriptor product = nullptr;
  check(t.desc_create(&product, p.body.tf32 ? ComputeType::f32_fast_tf32 : ComputeType::f32,
                      DataType::f32),
        "cublasLtMatmulDescCreate");
  p.product = Owner(product, t.desc_destroy);
  const auto set = [&](Desc what, const auto& value) {
    check(t.desc_set(product, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(Desc::trans_a, p.body.tb ? kTransposed : kPlain);
  set(Desc::trans_b, p.body.ta ? kTransposed : kPlain);
  uint32_t epilogue = p.body.bias ? kEpilogueBias : 0;
  if (p.body.act == MatmulBody::Act::relu) epilogue |= kEpilogueRelu;
  if (p.body.act == MatmulBody::Act::gelu) epilogue |= kEpilogueGelu;
  set(Desc::epilogue, epilogue == 0 ? kEpilogueNone : epilogue);
  // Any address that lies as the real ones do: the heuristic asks how it is aligned.
  if (p.body.bias) set(Desc::bias_pointer, uint64_t{kAlignment});

  const MatmulBody& m = p.body;
  const DataType type = data_type(m.dtype);
  p.a = m.tb ? layout_of(type, m.n, m.k, m.batch) : layout_of(type, m.k, m.n, m.batch);
  p.b = m.ta ? layout_of(type, m.k, m.m, m.batch) : layout_of(type, m.m, m.k, m.batch);
  p.d = layout_of(type, m.m, m.n, m.batch);

  Descriptor preference = nullptr;
  check(t.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const Owner owner(preference, t.preference_destroy);
  const auto prefer = [&](Preference what, const auto& value) {
    check(t.preference_set(preference, what, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(Preference::workspace_bytes, uint64_t{p.workspace});
  for (const Preference what : {Preference::alignment_a, Preference::alignment_b,
                                Preference::alignment_c, Preference::alignment_d}) {
    prefer(what, kAlignment);
  }
  Heuristic found{};
  int count = 0;
  check(t.heuristic(p.library->handle_->handle, product, p.a.get(), p.b.get(), p.d.get(), p.d.get(),
                    preference, 1, &found, &count),
        fmt::format("no algorithm for kernel {}", kernel.symbol));
  if (count == 0 || found.state != Status::success) {
    throw_error("E0891", fmt::format("cuBLASLt has no algorithm for kernel {}", kernel.symbol),
                kInstead);
  }
  p.algorithm = found.algorithm;
}

LtMatmul::~LtMatmul() = default;

void LtMatmul::enqueue(const std::vector<CUdeviceptr>& args, CUdeviceptr workspace,
                       CUstream stream) const {
  const Plan& p = *plan_;
  const auto pointer = [&](size_t slot) { return reinterpret_cast<void*>(args[slot]); };
  const Table& t = table();
  if (p.body.bias) {
    const void* bias = pointer(*p.body.bias);
    check(t.desc_set(p.product.get(), Desc::bias_pointer, &bias, sizeof bias),
          "cublasLtMatmulDescSetAttribute");
  }
  constexpr float kOne = 1, kZero = 0;
  void* d = pointer(p.body.result);
  check(t.matmul(p.library->handle_->handle, p.product.get(), &kOne, pointer(p.body.rhs), p.a.get(),
                 pointer(p.body.lhs), p.b.get(), &kZero, d, p.d.get(), d, p.d.get(), &p.algorithm,
                 reinterpret_cast<void*>(workspace), p.workspace, stream),
        "cublasLtMatmul");
}

}  // namespace braid::runtime
