#include "ir/lexer.hpp"

#include <cctype>

namespace braid::ir {
namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word_char(char c) {
  return is_word_start(c) || std::isdigit(static_cast<unsigned char>(c));
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

}  // namespace

void Lexer::advance() {
  const char c = text_[at_++];
  if (c == '\n') {
    ++line_;
    column_ = 1;
  } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
    ++column_;  // columns count code points
  }
}

Token Lexer::string_token(Token t) {
  const auto unreadable = [&] {
    t.kind = Token::Kind::bad;
    t.text = "\"";
    t.place.end_column = 0;
    return t;
  };
  advance();
  while (at_ < text_.size() && peek() != '"' && peek() != '\n') {
    if (peek() != '\\') {
      t.text += peek();
      advance();
      continue;
    }
    advance();
    const auto hex = [](char c) {
      return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    if (peek() == 'x' && hex(peek(1)) >= 0 && hex(peek(2)) >= 0) {
      t.text += static_cast<char>(hex(peek(1)) * 16 + hex(peek(2)));
      advance();
      advance();
    } else if (peek() == '"' || peek() == '\\') {
      t.text += peek();
    } else {
      return unreadable();
    }
    advance();
  }
  if (peek() == '"') {
    advance();
    t.kind = Token::Kind::string;
    t.place.end_column = column_;
    return t;
  }
  return unreadable();
}

Token Lexer::next() {
  while (at_ < text_.size()) {
    const char c = peek();
    if (c == ';') {
      while (at_ < text_.size() && peek() != '\n') advance();
    } else if (c == '\n' && line_has_tokens_) {
      break;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      advance();
    } else {
      break;
    }
  }
  Token t;
  t.place = {file_, line_, column_, 0};
  if (at_ >= text_.size()) return t;
  const char c = peek();
  if (c == '\n') {
    advance();
    line_has_tokens_ = false;
    t.kind = Token::Kind::newline;
    return t;
  }
  line_has_tokens_ = true;
  if (c == '"') return string_token(std::move(t));
  const auto take_while = [&](auto accept) {
    while (at_ < text_.size() && accept(peek())) {
      t.text += peek();
      advance();
    }
  };
  if (c == '%') {
    advance();
    take_while(is_digit);
    t.kind = t.text.empty() ? Token::Kind::bad : Token::Kind::value;
  } else if (is_word_start(c)) {
    take_while(is_word_char);
    t.kind = Token::Kind::word;
  } else if (is_digit(c) || (c == '-' && (is_digit(peek(1)) || peek(1) == 'i' || peek(1) == 'n'))) {
    t.text += c;
    advance();
    // A sign belongs to a number only after an exponent's e.
    take_while([&](char d) {
      return is_word_char(d) || d == '.' || ((d == '-' || d == '+') && t.text.back() == 'e');
    });
    t.kind = Token::Kind::number;
  } else {
    t.text = c;
    advance();
    t.kind = std::string_view("{}[](),:=*+-").find(c) != std::string_view::npos
                 ? Token::Kind::symbol
                 : Token::Kind::bad;
  }
  t.place.end_column = column_;
  return t;
}

}  // namespace braid::ir
