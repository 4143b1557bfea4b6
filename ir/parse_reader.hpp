// Reads .bir text piece by piece: tokens, numbers and lists, with an error for what is not there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/lexer.hpp"

namespace braid::ir {

/// Leaves the current line; the diagnostic is recorded already.
struct LineError {};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : lexer_(text, file) { advance(); }

 protected:
  using Kind = Token::Kind;

  void advance() { token_ = lexer_.next(); }
  bool at(Kind kind) const { return token_.kind == kind; }
  bool at_symbol(std::string_view s) const { return at(Kind::symbol) && token_.text == s; }
  bool at_word(std::string_view s) const { return at(Kind::word) && token_.text == s; }

  /// Records an error and leaves the line.
  [[noreturn]] void fail(std::string code, std::string message, const Place& place,
                         std::string hint = {});
  [[noreturn]] void fail(std::string code, std::string message) {
    fail(std::move(code), std::move(message), token_.place);
  }
  /// The same for a token of another kind than expected.
  [[noreturn]] void expected(std::string_view what);

  std::string take(Kind kind, std::string_view what);
  void take_symbol(std::string_view s);
  void take_word(std::string_view s);
  int64_t take_int(std::string_view what);
  /// Also nan, inf and -inf.
  double take_double(std::string_view what);
  bool take_bool();
  /// One of `words`, by its index.
  size_t take_choice(const std::vector<std::string>& words, std::string_view what);
  /// "[1, 2]", at most kMaxRank entries.
  std::vector<int64_t> take_ints();
  /// After an entry of a list: takes a comma unless the list ends here.
  void separator(std::string_view close);
  void end_line();
  /// Goes on behind the current line, and behind the bodies that begin in what is left of it.
  void skip_line();

  Token token_;
  std::vector<Diagnostic> errors_;

 private:
  Lexer lexer_;
};

}  // namespace braid::ir
