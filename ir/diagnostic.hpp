// What went wrong, where, and how to mend it. One renderer for TOML, C++ and .bir places.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// A place in a source file. Lines and columns count from 1, columns in code points; 0 = unknown.
struct Place {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t end_column = 0;  // exclusive; 0 = one token
  uint32_t end_line = 0;    // 0 = the same line
  bool known() const { return line != 0; }
};

enum class Severity : uint8_t { error, warning, note };

struct Diagnostic {
  Severity severity = Severity::error;
  std::string code{};     // "E0301"; empty for notes
  std::string message{};  // one sentence, no full stop
  Place place{};
  std::vector<std::string> details{};  // printed under the caret, one per line
  std::string suggestion{};            // "did you mean 'wq'?", printed after the caret
  std::vector<Diagnostic> notes{};     // places that belong to it
};

/// Gives the text of a file for the source line in a rendered diagnostic; nothing if unavailable.
using SourceText = std::function<std::optional<std::string>(const std::string& file)>;

/// How many errors are shown unless somebody asks for more.
inline constexpr size_t kMaxErrorsShown = 20;

struct RenderOptions {
  bool colour = false;
  SourceText source{};                  // default: read the file from disk
  size_t max_errors = kMaxErrorsShown;  // the others are only counted; 0 = show all
};

/// `file:line:col: error[E0301]: sentence`, the source line, a caret, details and notes.
std::string render(const Diagnostic& d, const RenderOptions& options = {});
/// Sorted by place, with a closing count line: "error: 23 errors (20 shown), 0 warnings".
std::string render(const std::vector<Diagnostic>& ds, const RenderOptions& options = {});
/// One JSON object per line: {file,line,col,end_line,end_col,severity,code,message,details[],
/// notes[],suggestion}. A last line counts what `max_errors` left out.
std::string render_json(const std::vector<Diagnostic>& ds, size_t max_errors = kMaxErrorsShown);

/// The model or the call is wrong: carries every diagnostic found. Exit code 1.
class Error : public std::runtime_error {
 public:
  explicit Error(std::vector<Diagnostic> ds);
  explicit Error(Diagnostic d) : Error(std::vector<Diagnostic>{std::move(d)}) {}
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Throws an Error of one diagnostic without a place.
[[noreturn]] void throw_error(std::string_view code, std::string message,
                              std::string suggestion = {});

/// No usable driver, device or NVRTC. Exit code 3.
class NoDevice : public std::runtime_error {
 public:
  explicit NoDevice(std::string reason, const std::string& remedy = {})
      : std::runtime_error(remedy.empty() ? reason : reason + ": " + remedy),
        reason_(std::move(reason)) {}
  /// What is missing, without what to do about it, for those who do something else.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// A driver or NVRTC call failed; the message holds call, code name and node or buffer. Exit
/// code 4.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& what, int code) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// A broken invariant of Braid itself. Exit code 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws InternalError unless `ok`.
inline void ensure(bool ok, const char* what) {
  if (!ok) throw InternalError(what);
}

/// Candidates within Damerau-Levenshtein distance max(1, len/3), nearest first, at most three.
std::vector<std::string> did_you_mean(std::string_view word,
                                      const std::vector<std::string>& candidates);
/// "did you mean 'a' or 'b'?" or "".
std::string suggest(std::string_view word, const std::vector<std::string>& candidates);
/// The same, or, where none is near and they are few, "it has 'a', 'b'".
std::string suggest_or_list(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace braid
