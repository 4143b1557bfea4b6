// Inside the C++ emitter: names that a Program gives as C++ text, and the program's fixed parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace braid::cpp_text {

/// What every program begins with, below its first comment: includes, checked calls, elements,
/// .npy files.
extern const std::string_view kPrelude;
/// What makes the node of a branch or a loop.
extern const std::string_view kConditional;
/// Waiting for an event: alone, or reading messages until it is there; and, behind the former, what
/// a branch or a loop that the host drives asks. The messages' part needs `sources` and
/// `ring_bytes` before it.
extern const std::string_view kWait, kDecided, kRecords, kMessages;
/// What host calls need, and the two functions that the tool registers.
extern const std::string_view kHostPrelude;
extern const std::string_view kHostIdentity, kHostPrint;
/// From the host's helpers to the first calls of run(), and what follows its last one.
extern const std::string_view kProgram, kMain;

/// A string literal of any bytes, in one line.
std::string literal(std::string_view bytes);
/// String literals of any bytes, as many lines as they take, each behind its line end.
std::string literal_lines(std::span<const std::byte> data);
/// Text for a comment that ends with its line: printable ASCII without backslashes.
std::string comment(std::string_view text);
/// "// " lines of words that break at 100 columns, each behind `indent`.
std::string comment_lines(std::string_view indent, std::string_view text);
/// `begin`, the items with commas, `end`: in lines that break at 100 columns, and behind every
/// `group` items (0: none).
std::string list_lines(std::string_view begin, std::span<const std::string> items,
                       std::string_view end, size_t group = 0);
/// What may stand in a C++ name behind a letter: letters, digits and single underscores.
std::string identifier(std::string_view name);

/// Files below a folder for names, each one once.
class FileNames {
 public:
  /// "layer0/w.npy" for "layer0/w" and ".npy". Leads out of no folder; a name whose file is taken
  /// gets a number.
  std::string take(std::string_view name, std::string_view ending);

 private:
  std::set<std::string> taken_;
};

}  // namespace braid::cpp_text
