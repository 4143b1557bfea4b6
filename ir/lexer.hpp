// Tokens of .bir text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/diagnostic.hpp"

namespace braid::ir {

struct Token {
  enum class Kind : uint8_t { end, newline, word, number, string, value, symbol, bad };
  Kind kind = Kind::end;
  /// A word's or number's characters, a string's content, a value's digits, one symbol.
  std::string text;
  Place place;
};

/// Splits on demand; never fails: characters that begin no token come as `bad`, an unreadable
/// string as a `bad` quote. A newline token ends every line that holds something.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}
  Token next();

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void advance();
  Token string_token(Token t);

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  uint32_t line_ = 1, column_ = 1;
  bool line_has_tokens_ = false;
};

}  // namespace braid::ir
