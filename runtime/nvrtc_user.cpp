#include "runtime/nvrtc_user.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "runtime/nvrtc.hpp"

namespace braid::runtime {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ec;  // a folder that nobody may look into has no such file
  return fs::is_regular_file(path, ec);
}

/// Where cuda_fp16.h and the like are; empty if they are not found.
std::string cuda_include_folder() {
  std::vector<fs::path> folders;
  if (const char* home = std::getenv("CUDA_HOME"); home && *home) {
    folders.push_back(fs::path(home) / "include");
  }
  const std::string& library = nvrtc().path;
  if (library.find('/') != std::string::npos) {
    const fs::path folder = fs::path(library).parent_path();
    folders.push_back(folder.parent_path() / "include");
    folders.push_back(folder.parent_path().parent_path() / "cuda_runtime" / "include");
  }
  folders.emplace_back("/usr/local/cuda/include");
  for (const fs::path& f : folders) {
    if (is_file(f / "cuda_fp16.h")) return f.string();
  }
  return {};
}

/// The user's folders for #include: that of the file first.
std::vector<std::string> user_folders(const Module& m) {
  std::vector<std::string> folders;
  if (!m.file.starts_with('<')) {
    const std::string folder = fs::path(m.file).parent_path().string();
    folders.push_back(folder.empty() ? "." : folder);
  }
  folders.insert(folders.end(), m.include.begin(), m.include.end());
  return folders;
}

class Includes {
 public:
  explicit Includes(const std::vector<std::string>& folders) : folders_(folders) {}

  /// False if what is included cannot be told.
  bool add(std::string_view source, const fs::path& folder) {
    size_t left = 0;  // times that the word stands there: in a comment, a test, or a line not known
    for (size_t at = 0; (at = source.find("include", at)) != std::string_view::npos; ++at) ++left;
    std::istringstream lines{std::string(source)};
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      char hash = 0;
      if (!(words >> hash) || hash != '#' || !(words >> word)) continue;
      if (!word.starts_with("include")) continue;
      std::string name = word.substr(7);
      if (name.empty() && !(words >> std::ws && std::getline(words, name))) return false;
      const char close = name[0] == '"' ? '"' : name[0] == '<' ? '>' : '\0';
      const size_t end = close ? name.find(close, 1) : std::string::npos;
      if (end == std::string::npos) return false;  // a macro
      if (!find(name.substr(1, end - 1), close == '"' ? folder : fs::path())) return false;
      for (size_t at = 0; (at = line.find("include", at)) != std::string::npos; ++at) --left;
    }
    // Lines may be joined, and C++ spells '#' in other ways too.
    return left == 0 && source.find("\\\n") == std::string_view::npos;
  }
  std::string take() { return std::move(texts_); }

 private:
  bool find(const std::string& name, const fs::path& folder) {
    std::vector<fs::path> places;
    if (!folder.empty()) places.push_back(folder / name);
    for (const std::string& f : folders_) places.push_back(fs::path(f) / name);
    const auto it = std::find_if(places.begin(), places.end(), is_file);
    if (it == places.end() || !seen_.insert(it->string()).second) return true;
    std::ifstream in(*it, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return false;
    texts_ += fmt::format("\n{} {}\n{}", it->string(), text.size(), text);
    return add(text, it->parent_path());
  }

  const std::vector<std::string>& folders_;
  std::set<std::string> seen_;
  std::string texts_;
};

/// Symbols, a line each, an empty line, the image: as the cache keeps it.
std::vector<std::byte> packed(const NvrtcResult& result) {
  std::string head;
  for (const std::string& s : result.symbols) head += s + "\n";
  head += "\n";
  std::vector<std::byte> bytes(head.size());
  std::transform(head.begin(), head.end(), bytes.begin(), [](char c) { return std::byte(c); });
  bytes.insert(bytes.end(), result.image.begin(), result.image.end());
  return bytes;
}

bool unpack(const std::vector<std::byte>& bytes, NvrtcResult& result) {
  auto at = bytes.begin();
  for (;;) {
    const auto end = std::find(at, bytes.end(), std::byte{'\n'});
    if (end == bytes.end()) return false;
    std::string line(static_cast<size_t>(end - at), '\0');
    std::transform(at, end, line.begin(), [](std::byte b) { return static_cast<char>(b); });
    at = end + 1;
    if (line.empty()) break;
    result.symbols.push_back(std::move(line));
  }
  result.image.assign(at, bytes.end());
  return true;
}

}  // namespace

std::optional<std::string> included_texts(std::string_view source,
                                          const std::vector<std::string>& folders) {
  Includes includes(folders);
  if (!includes.add(source, folders.empty() ? fs::path() : fs::path(folders[0]))) return {};
  return includes.take();
}

bool compile_user_module(Program& program, uint32_t module, const Cache& cache,
                         std::string* not_kept) {
  Module& m = program.modules[module];
  std::vector<std::string> functions;
  for (const Kernel& k : program.kernels) {
    if (k.module == module) functions.push_back(k.function);
  }
  std::sort(functions.begin(), functions.end());
  functions.erase(std::unique(functions.begin(), functions.end()), functions.end());

  const std::vector<std::string> folders = user_folders(m);
  NvrtcJob job{m.source,
               m.file,
               {fmt::format("--gpu-architecture={}", m.arch), "--std=c++20", "--no-cache"},
               functions};
  for (const std::string& f : folders) job.options.push_back("--include-path=" + f);
  const std::string cuda = cuda_include_folder();
  if (!cuda.empty()) job.options.push_back("--include-path=" + cuda);

  const std::optional<std::string> included = included_texts(m.source, folders);
  const std::string key = fmt::format("nvrtc {}.{} {} {}\n{}\n{}", nvrtc().major, nvrtc().minor,
                                      fmt::join(job.options, " "), fmt::join(functions, "; "),
                                      m.source, included.value_or(""));
  NvrtcResult result;
  bool cached = false;
  if (const auto kept = included ? cache.get(key) : std::nullopt) {
    cached = unpack(*kept, result) && result.symbols.size() == functions.size();
  }
  if (!cached) {
    const std::string what = fmt::format("{} ({})", m.file, fmt::join(functions, ", "));
    result = run_nvrtc(job, what);
    if (result.code != 0) {
      std::vector<Diagnostic> wrong = mistakes_in(result.log, m, functions);
      if (wrong.empty() && result.log.find("ptxas") != std::string::npos) {
        // The assembler's limits: shared memory, registers. It names no line.
        Diagnostic d;
        d.code = "E0880";
        d.message = fmt::format("{}: the assembler refuses the kernel", what);
        d.place.file = m.file;
        d.details.push_back(result.log.substr(0, result.log.find_last_not_of("\n") + 1));
        wrong.push_back(std::move(d));
      }
      if (wrong.empty()) refused(result, what);
      throw Error(std::move(wrong));
    }
    for (size_t i = 0; i < functions.size(); ++i) {
      if (!result.symbols[i].empty()) continue;
      Diagnostic d;
      d.code = "E0882";
      d.message = fmt::format("there is no __global__ function '{}'", functions[i]);
      d.place.file = m.file;
      d.suggestion = "NVRTC reads code up to a byte that is no text, such as 0xff";
      throw Error(std::move(d));
    }
    if (included) cache.put(key, packed(result), not_kept);
  }
  m.image = std::move(result.image);
  for (Kernel& k : program.kernels) {
    if (k.module != module) continue;
    const auto at = std::lower_bound(functions.begin(), functions.end(), k.function);
    k.symbol = result.symbols[static_cast<size_t>(at - functions.begin())];
  }
  return cached;
}

}  // namespace braid::runtime
