#include "ir/parse_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/type.hpp"

namespace braid::ir {
namespace {

/// The whole text as a number. Unlike strtod and strtoll this heeds no locale.
template <class T>
bool number(std::string_view text, T& x) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void Reader::fail(std::string code, std::string message, const Place& place, std::string hint) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.place = place;
  d.suggestion = std::move(hint);
  errors_.push_back(std::move(d));
  throw LineError{};
}

void Reader::expected(std::string_view what) {
  if (at(Kind::bad) && token_.text.starts_with('"')) {
    fail("E0101", "this string has no closing quote or an unknown escape");
  }
  fail("E0101", fmt::format("expected {}", what));
}

std::string Reader::take(Kind kind, std::string_view what) {
  if (!at(kind)) expected(what);
  std::string text = std::move(token_.text);
  advance();
  return text;
}

void Reader::take_symbol(std::string_view s) {
  if (!at_symbol(s)) expected(fmt::format("'{}'", s));
  advance();
}

void Reader::take_word(std::string_view s) {
  if (!at_word(s)) expected(fmt::format("'{}'", s));
  advance();
}

int64_t Reader::take_int(std::string_view what) {
  int64_t x = 0;
  if (!at(Kind::number) || !number(token_.text, x)) {
    expected(fmt::format("{}: an integer of 64 bits", what));
  }
  advance();
  return x;
}

double Reader::take_double(std::string_view what) {
  double x = 0;
  const bool word = at_word("nan") || at_word("inf");
  if (!(at(Kind::number) || word) || !number(token_.text, x)) {
    expected(fmt::format("{}: a number, nan, inf or -inf", what));
  }
  advance();
  return x;
}

bool Reader::take_bool() { return take_choice({"false", "true"}, "true or false") == 1; }

size_t Reader::take_choice(const std::vector<std::string>& words, std::string_view what) {
  const auto it = at(Kind::word) ? std::find(words.begin(), words.end(), token_.text) : words.end();
  if (it == words.end()) expected(what);
  advance();
  return static_cast<size_t>(it - words.begin());
}

std::vector<int64_t> Reader::take_ints() {
  std::vector<int64_t> xs;
  take_symbol("[");
  while (!at_symbol("]")) {
    if (xs.size() == static_cast<size_t>(kMaxRank)) fail("E0302", "a list has at most 8 entries");
    xs.push_back(take_int("an entry"));
    separator("]");
  }
  advance();
  return xs;
}

void Reader::separator(std::string_view close) {
  if (at_symbol(close)) return;
  if (!at_symbol(",")) expected(fmt::format("',' or '{}'", close));
  advance();
}

void Reader::end_line() {
  if (at(Kind::end) || at_symbol("}")) return;
  if (!at(Kind::newline)) expected("the end of the line");
  advance();
}

void Reader::skip_line() {
  for (int open = 0; !at(Kind::end);) {
    if (at_symbol("{")) {
      advance();
      if (at(Kind::newline)) ++open;  // else the braces of attributes, which end in their line
      continue;
    }
    const bool line_ends = at(Kind::newline);
    advance();
    if (!line_ends) continue;
    if (open == 0) return;
    if (at_symbol("}")) --open;
  }
}

}  // namespace braid::ir
