// The fixed parts of the programs that to_cpp writes. Values are those of random_tensor and
// f64_to_f16 in ir/, files those of npy.hpp: tests compare all of them.
#include "frontend/report/cpp_text.hpp"

namespace braid::cpp_text {

const std::string_view kPrelude = R"prelude(#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#if CUDA_VERSION < 12080
#error "this program needs the cuda.h of CUDA 12.8 or newer"
#elif CUDA_VERSION < 13000
#undef cuGraphAddNode
#define cuGraphAddNode cuGraphAddNode_v2  // the one that takes edge data
#endif

namespace plan {

using namespace std::string_literals;

// ---- Calls ----

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "error: %s\n", text.c_str());
  std::exit(1);
}

void check(CUresult result, const char* call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
  std::string text = "line " + std::to_string(line) + ": " + call + ": " + name + " (" +
                     std::to_string(static_cast<int>(result)) + ")";
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) text += ", the kernels are compiled for another GPU";
  fail(text);
}
#define CALL(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

struct Kernel {
  unsigned grid[3], block[3];
  unsigned shared_bytes;  // dynamic
  CUfunction function = nullptr;
};

template <size_t n>
std::array<void*, n> pointers_to(CUdeviceptr (&arguments)[n]) {
  std::array<void*, n> out;
  for (size_t i = 0; i < n; ++i) out[i] = &arguments[i];
  return out;
}

CUgraphNodeParams kernel_node(const Kernel& k, void** arguments) {
  CUgraphNodeParams params{};  // unused bytes must be zero
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  params.kernel.func = k.function;
  params.kernel.gridDimX = k.grid[0];
  params.kernel.gridDimY = k.grid[1];
  params.kernel.gridDimZ = k.grid[2];
  params.kernel.blockDimX = k.block[0];
  params.kernel.blockDimY = k.block[1];
  params.kernel.blockDimZ = k.block[2];
  params.kernel.sharedMemBytes = k.shared_bytes;
  params.kernel.kernelParams = arguments;
  return params;
}

// An edge that waits for the end of a kernel, and one that waits until it lets others begin.
inline constexpr CUgraphEdgeData full{};
inline constexpr CUgraphEdgeData programmatic{
    CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};

// ---- Elements ----

enum class DType { f32, f16, bf16, f64, i32, i64, i8, u8, b1 };
using Bytes = std::vector<unsigned char>;

size_t size_of(DType t) {
  constexpr size_t sizes[] = {4, 2, 2, 8, 4, 8, 1, 1, 1};
  return sizes[static_cast<int>(t)];
}

bool is_float(DType t) { return t <= DType::f64; }

// To a binary format of so many bits of mantissa and such exponents, to nearest even.
uint16_t pack(double x, int mantissa, int min_exp, int max_exp) {
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const int infinity = (max_exp - min_exp + 2) << mantissa;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | infinity | 1 << (mantissa - 1));
  if (x == 0 || std::isinf(x)) return static_cast<uint16_t>(sign | (x == 0 ? 0 : infinity));
  const int exponent = std::max(std::ilogb(x), min_exp);
  const double units = std::nearbyint(std::ldexp(std::fabs(x), mantissa - exponent));
  const int64_t bits = (int64_t{exponent - min_exp} << mantissa) + static_cast<int64_t>(units);
  return static_cast<uint16_t>(sign | static_cast<int>(std::min<int64_t>(bits, infinity)));
}

float unpack(uint16_t bits, DType t) {
  if (t == DType::bf16) return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  float x = std::ldexp(static_cast<float>(exponent ? mantissa + 0x400 : mantissa),
                       std::max(exponent, 1) - 25);
  if (exponent == 0x1f) x = mantissa ? std::nanf("") : HUGE_VALF;
  return std::copysign(x, bits & 0x8000 ? -1.0f : 1.0f);
}

template <class T>
T get(const void* elements, size_t i) {
  T x;
  std::memcpy(&x, static_cast<const unsigned char*>(elements) + i * sizeof x, sizeof x);
  return x;
}

template <class T>
void put(void* elements, size_t i, T x) {
  std::memcpy(static_cast<unsigned char*>(elements) + i * sizeof x, &x, sizeof x);
}

void set(void* to, DType t, size_t i, double x) {
  switch (t) {
    case DType::f32: return put(to, i, static_cast<float>(x));
    case DType::f16: return put(to, i, pack(x, 10, -14, 15));
    case DType::bf16: return put(to, i, pack(x, 7, -126, 127));
    case DType::f64: return put(to, i, x);
    case DType::i32: return put(to, i, static_cast<int32_t>(x));
    case DType::i64: return put(to, i, static_cast<int64_t>(x));
    case DType::i8: return put(to, i, static_cast<int8_t>(x));
    case DType::u8: return put(to, i, static_cast<uint8_t>(x));
    case DType::b1: return put(to, i, static_cast<uint8_t>(x != 0));
  }
}

std::string text_of(const void* from, DType t, size_t i) {
  char text[40];
  const auto real = [&](double x) { std::snprintf(text, sizeof text, "%g", x); };
  const auto whole = [&](long long x) { std::snprintf(text, sizeof text, "%lld", x); };
  switch (t) {
    case DType::f32: real(double{get<float>(from, i)}); break;
    case DType::f16:
    case DType::bf16: real(double{unpack(get<uint16_t>(from, i), t)}); break;
    case DType::f64: real(get<double>(from, i)); break;
    case DType::i32: whole(get<int32_t>(from, i)); break;
    case DType::i64: whole(get<int64_t>(from, i)); break;
    case DType::i8: whole(get<int8_t>(from, i)); break;
    case DType::u8:
    case DType::b1: whole(get<uint8_t>(from, i)); break;
  }
  return text;
}

std::string first_values(const void* from, DType t, size_t count, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(count, most); ++i) text += " " + text_of(from, t, i);
  return text + (count > most ? " .." : "");
}

uint64_t fnv1a(const void* bytes, size_t count) {
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i) {
    h = (h ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  }
  return h;
}

// ---- Tensors ----

struct Tensor {
  std::string name;
  DType dtype;
  const char* type;    // "f32[128,256]"
  size_t count;        // elements
  std::string file;    // below FOLDER
  const char* header;  // of the .npy, without its spaces
  size_t bytes() const { return count * size_of(dtype); }
};

uint64_t next(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// What `braid run` gives by its seed 1 and a name: floats about normal (the sum of 12 uniforms),
// integers 0 to 7, booleans 0 or 1.
Bytes random_values(const Tensor& t, double scale) {
  Bytes out(t.bytes());
  uint64_t state = next(next(1) ^ fnv1a(t.name.data(), t.name.size()));
  const auto high = [&] { return static_cast<double>(state >> 32) * 0x1p-32; };
  const auto low = [&] { return static_cast<double>(state & 0xffffffff) * 0x1p-32; };
  for (size_t i = 0; i < t.count; ++i) {
    double sum = -6;
    for (int draw = 0; draw < (is_float(t.dtype) ? 6 : 1); ++draw) {
      state = next(state);
      sum += high() + low();
    }
    set(out.data(), t.dtype, i,
        is_float(t.dtype) ? scale * sum : std::trunc(high() * (t.dtype == DType::b1 ? 2 : 8)));
  }
  return out;
}

Bytes equal_values(const Tensor& t, double x) {
  Bytes out(t.bytes());
  for (size_t i = 0; i < t.count; ++i) set(out.data(), t.dtype, i, x);
  return out;
}

// The .npy of a tensor as NumPy and braid write it; bf16 is f4 there. `values` if FOLDER has none.
Bytes values_of(const std::string& folder, const Tensor& t, Bytes values) {
  if (folder.empty()) return values;
  const std::string path = folder + "/" + t.file;
  std::ifstream in(path, std::ios::binary);
  if (!in) return values;
  const Bytes file{std::istreambuf_iterator<char>(in), {}};
  const auto reject = [&](const std::string& why) {
    fail(path + ": " + why + "; " + t.name + " is " + t.type + ", a header such as " + t.header);
  };
  if (file.size() < 12 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) reject("no .npy file");
  const size_t start = file[6] == 1 ? 10 : 12;
  const size_t length = file[6] == 1 ? get<uint16_t>(&file[8], 0) : get<uint32_t>(&file[8], 0);
  if (file.size() < start + length) reject("the file ends inside its header");
  std::string header(reinterpret_cast<const char*>(file.data()) + start, length);
  std::erase_if(header, [](char c) { return c == ' ' || c == '\n'; });
  if (header != t.header) reject("it holds " + header);
  std::fprintf(stderr, "read %s\n", path.c_str());
  const bool wide = t.dtype == DType::bf16;
  const unsigned char* elements = file.data() + start + length;
  if (file.size() - start - length != t.count * (wide ? 4 : size_of(t.dtype))) {
    reject("its size is not that of its shape");
  }
  if (!wide) return {elements, file.data() + file.size()};
  for (size_t i = 0; i < t.count; ++i) {
    set(values.data(), t.dtype, i, double{get<float>(elements, i)});
  }
  return values;
}

void write_npy(const std::string& folder, const Tensor& t, const Bytes& values) {
  const std::filesystem::path path = folder + "/" + t.file;
  std::error_code ignored;  // opening the file says what is wrong
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::string header;
  for (const char* c = t.header; *c; ++c) {
    header += *c;
    // NumPy's spaces: behind colons and commas, but not in (3,).
    if (*c == ':' || (*c == ',' && c[1] != ')')) header += ' ';
  }
  // It ends in ", }", which the loop makes of ",}".
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  Bytes elements = values;
  if (t.dtype == DType::bf16) {
    elements.resize(t.count * 4);
    for (size_t i = 0; i < t.count; ++i) {
      put(elements.data(), i, unpack(get<uint16_t>(values.data(), i), t.dtype));
    }
  }
  std::ofstream out(path, std::ios::binary);
  out.write("\x93NUMPY\x01\x00", 8);
  out.put(static_cast<char>(header.size() & 0xff)).put(static_cast<char>(header.size() >> 8));
  out << header;
  out.write(reinterpret_cast<const char*>(elements.data()),
            static_cast<std::streamsize>(elements.size()));
  if (!out.flush()) fail("cannot write " + path.string());
}
)prelude";

const std::string_view kHostPrelude = R"prelude(
// ---- Host functions ----

// An argument, or a result to fill: it comes zeroed.
struct HostValue {
  DType dtype;
  const char* type;
  size_t count;  // elements, row-major
  void* data;
  size_t bytes() const { return count * size_of(dtype); }
};
using HostValues = std::vector<HostValue>;
)prelude";

const std::string_view kHostIdentity = R"prelude(
  if (in.size() != out.size()) fail("identity gives back its arguments, but has other results");
  for (size_t i = 0; i < in.size(); ++i) {
    if (std::strcmp(in[i].type, out[i].type) != 0) fail("identity has a result of another type");
    std::memcpy(out[i].data, in[i].data, in[i].bytes());
  }
)prelude";

const std::string_view kHostPrint = R"prelude(
  for (const HostValue& v : in) {
    if (timing) return;
    std::fprintf(stderr, "%s:%s\n", v.type, first_values(v.data, v.dtype, v.count, 8).c_str());
  }
)prelude";

const std::string_view kProgram = R"prelude(
// ---- The program ----

void upload(CUdeviceptr to, const Bytes& values) {
  if (values.empty()) return;
  CALL(cuMemcpyHtoDAsync(to, values.data(), values.size(), stream));
  CALL(cuStreamSynchronize(stream));
}

void show(const std::string& folder, const Tensor& t, CUdeviceptr from) {
  Bytes values(t.bytes());
  if (!values.empty()) CALL(cuMemcpyDtoHAsync(values.data(), from, values.size(), stream));
  CALL(cuStreamSynchronize(stream));
  if (!folder.empty()) write_npy(folder, t, values);
  std::printf("%s %s %s  fnv1a %016llx\n", t.name.c_str(), t.type,
              first_values(values.data(), t.dtype, t.count, 6).c_str(),
              static_cast<unsigned long long>(fnv1a(values.data(), values.size())));
}

void time_launches(int launches) {
  CUevent begin, end;
  CALL(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CALL(cuEventCreate(&end, CU_EVENT_DEFAULT));
  std::vector<double> us;
  while (us.size() < 21) {
    CALL(cuEventRecord(begin, stream));
    for (int i = 0; i < launches; ++i) launch();
    CALL(cuEventRecord(end, stream));
    wait_for(end);
    float ms = 0;
    CALL(cuEventElapsedTime(&ms, begin, end));
    us.push_back(double{ms} * 1000 / launches);
  }
  std::sort(us.begin(), us.end());
  std::printf("%.2f us a launch, back to back: the median of 21 times %d launches\n",
              us[us.size() / 2], launches);
  CALL(cuEventDestroy(begin));
  CALL(cuEventDestroy(end));
}

void run(const std::string& folder, int launches) {
  CUdevice device;
  CALL(cuInit(0));
  CALL(cuDeviceGet(&device, 0));
  CALL(cuDevicePrimaryCtxRetain(&context, device));
  CALL(cuCtxPushCurrent(context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
)prelude";

const std::string_view kMain = R"prelude(}

}  // namespace plan

int main(int argc, char** argv) {
  const char* launches = argc > 2 ? argv[2] : "100";
  if (argc > 3 || *launches < '0' || *launches > '9') {
    plan::fail(std::string("usage: ") + argv[0] + " [FOLDER [LAUNCHES]]");
  }
  plan::run(argc > 1 ? argv[1] : "", std::atoi(launches));
}
)prelude";

}  // namespace braid::cpp_text
