// The text that people and tools see for a diagnostic.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/diagnostic.hpp"

using namespace braid;

namespace {

RenderOptions over(std::string text, bool colour = false) {
  return {colour, [text = std::move(text)](const std::string&) { return std::optional(text); }};
}

Diagnostic at(Place place, std::string message = "m") {
  Diagnostic d;
  d.code = "E0301";
  d.message = std::move(message);
  d.place = std::move(place);
  return d;
}

/// The caret line of a one-line file.
std::string carets(const std::string& line, uint32_t column, uint32_t end = 0) {
  const std::string text = render(at({"f", 1, column, end}), over(line));
  const size_t begin = text.rfind(" | ") + 3;
  return text.substr(begin, text.size() - begin - 1);
}

}  // namespace

TEST_CASE("place, sentence, source line, caret with suggestion, details, notes") {
  Diagnostic d = at({"model.toml", 2, 9, 14}, "unknown name 'wq_'");
  d.suggestion = "did you mean 'wq'?";
  d.details = {"'r'  bf16[8]", "768 vs 3072"};
  Diagnostic note;
  note.severity = Severity::note;
  note.message = "in block 'layer'";
  note.place = {"model.toml", 1, 1, 0};
  d.notes = {note};
  CHECK(render(d, over("block x\n  in = [\"wq_\"]\r\nlast")) ==
        "model.toml:2:9: error[E0301]: unknown name 'wq_'\n"
        "    2 |   in = [\"wq_\"]\n"
        "      |         ^^^^^ did you mean 'wq'?\n"
        "      | 'r'  bf16[8]\n"
        "      | 768 vs 3072\n"
        "model.toml:1:1: note: in block 'layer'\n"
        "    1 | block x\n"
        "      | ^^^^^\n");
}

TEST_CASE("carets count code points, copy tabs, and cover one token by default") {
  CHECK(carets("abc def", 5) == "    ^^^");
  CHECK(carets("abc def", 5, 6) == "    ^");
  CHECK(carets("\t\tx = y", 3) == "\t\t^");
  CHECK(carets("\xc3\xa4\xc3\xb6 = wrong", 6) == "     ^^^^^");
  CHECK(carets("\"\xc3\xa4\xe2\x82\xac\" x", 1, 5) == "^^^^");
  CHECK(carets("in = \"a b\" x", 6) == "     ^^^^^");
  CHECK(carets("a + b", 3) == "  ^");
  CHECK(carets("short", 40) == "     ^");  // a place beyond the line does not run away
  CHECK(carets("", 1) == "^");
}

TEST_CASE("what is unknown is left out") {
  Diagnostic d = at({}, "nothing to launch");
  d.suggestion = "add an output";
  CHECK(render(d) == "error[E0301]: nothing to launch\n      | add an output\n");
  CHECK(render(at({"f.npy", 0, 0, 0})) == "f.npy: error[E0301]: m\n");
  CHECK(render(at({"f", 3, 0, 0}), over("a\nb\nc")) == "f:3: error[E0301]: m\n    3 | c\n");
  CHECK(render(at({"f", 9, 2, 0}), over("a\nb\nc")) == "f:9:2: error[E0301]: m\n");
  CHECK(render(at({"no such file", 1, 1, 0})) == "no such file:1:1: error[E0301]: m\n");
  CHECK(render(at({BRAID_SOURCE_DIR, 1, 1, 0})) ==
        std::string(BRAID_SOURCE_DIR) + ":1:1: error[E0301]: m\n");
}

TEST_CASE("control characters of a model do not reach the terminal") {
  Diagnostic d = at({"f\x1b[2J", 1, 1, 3}, "unknown name '\x1b[31m\n'");
  d.details = {"'\x07'"};
  d.suggestion = "did you mean '\r'?";
  const std::string text = render(d, over("a\x1b[0mb\x7f"));
  for (char c : text) CHECK((c == '\n' || (c >= 0x20 && c != 0x7f)));
  CHECK(text.find("'\\x1b[31m\\x0a'") != std::string::npos);
}

TEST_CASE("colour only when asked") {
  const Diagnostic d = at({"f", 1, 1, 0});
  CHECK(render(d, over("x")).find('\x1b') == std::string::npos);
  const std::string text = render(d, over("x", true));
  CHECK(text.find("\x1b[1;31merror") != std::string::npos);
  CHECK(text.find("\x1b[1;32m^\x1b[0m") != std::string::npos);
}

TEST_CASE("many are sorted by place and counted") {
  std::vector<Diagnostic> ds = {at({"b", 1, 1, 0}, "4"), at({"a", 10, 1, 0}, "3"),
                                at({"a", 9, 7, 0}, "2"), at({"a", 9, 2, 0}, "1")};
  ds[1].severity = Severity::warning;
  const auto nothing = [](const std::string&) { return std::optional<std::string>(); };
  CHECK(render(ds, {false, nothing}) ==
        "a:9:2: error[E0301]: 1\n"
        "a:9:7: error[E0301]: 2\n"
        "a:10:1: warning[E0301]: 3\n"
        "b:1:1: error[E0301]: 4\n"
        "error: 3 errors, 1 warning\n");
  CHECK(Error(ds).what() == render(ds));
  CHECK(render({ds[1], ds[1]}, {false, nothing}) ==
        "a:10:1: warning[E0301]: 3\na:10:1: warning[E0301]: 3\n2 warnings\n");
  CHECK(Error(ds).diagnostics().size() == 4);
  CHECK(Error(ds[0]).what() == render(std::vector{ds[0]}));
}

TEST_CASE("JSON: one object a line, sorted, valid for any bytes") {
  Diagnostic d = at({"a", 2, 3, 5}, "bad \"\xff\n");
  d.suggestion = "s";
  d.details = {"x", "y"};
  d.notes = {at({"n", 1, 1, 0})};
  const std::string text = render_json({d, at({"a", 1, 1, 0}, "first")});
  const size_t end = text.find('\n');
  REQUIRE(end != std::string::npos);
  CHECK(text.find('\n', end + 1) == text.size() - 1);
  CHECK(text.starts_with(
      R"({"file":"a","line":1,"col":1,"end_line":1,"end_col":0,"severity":"error","code":"E0301",)"
      R"("message":"first",)"));
  const auto second = nlohmann::json::parse(text.substr(end + 1));
  CHECK(second["end_col"] == 5);
  CHECK(second["suggestion"] == "s");
  CHECK(second["details"] == nlohmann::json({"x", "y"}));
  CHECK(second["notes"][0]["file"] == "n");
}

TEST_CASE("did_you_mean: near names, nearest first, three at most") {
  using Names = std::vector<std::string>;
  CHECK(did_you_mean("wq_", {"wk", "wq", "x"}) == Names{"wq"});
  CHECK(did_you_mean("mtmaul", {"matmul"}) == Names{"matmul"});  // two swaps
  CHECK(did_you_mean("muttal", {"matmul"}) == Names{});          // too far
  CHECK(did_you_mean("matmlu", {"matmul"}) == Names{"matmul"});  // one swap
  CHECK(did_you_mean("maxtrix_mul", {"matrix_mul"}) == Names{"matrix_mul"});
  CHECK(did_you_mean("soft", {"softmax", "sort", "loft", "soft", "sofa", "sift"}) ==
        Names{"loft", "sift", "sofa"});
  CHECK(did_you_mean("w", {"x1", "w1"}) == Names{"w1"});
  CHECK(did_you_mean("anything", {}) == Names{});
  // Any letter is one change from any other: only their case says something.
  CHECK(did_you_mean("q", {"z", "y", "qk"}) == Names{"qk"});
  CHECK(did_you_mean("q", {"z", "Q"}) == Names{"Q"});
  CHECK(suggest("soft", {"sofa", "sort"}) == "did you mean 'sofa' or 'sort'?");
  CHECK(suggest("soft", {"sofa", "sort", "sift"}) == "did you mean 'sift', 'sofa' or 'sort'?");
  CHECK(suggest("zzz", {"sofa"}).empty());
}

TEST_CASE("only so many errors are shown, and all are counted") {
  std::vector<Diagnostic> ds;
  for (uint32_t i = 1; i <= 25; ++i) {
    Diagnostic d;
    d.message = "error number " + std::to_string(i);
    d.place = {"f", i, 1, 0};
    ds.push_back(d);
  }
  ds[3].severity = Severity::warning;
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string usual = render(ds);
  CHECK(has(usual, "error number 21\n"));  // the twentieth error, the fourth being a warning
  CHECK(!has(usual, "error number 22\n"));
  CHECK(has(usual, "error: 24 errors (20 shown), 1 warning\n"));
  RenderOptions o;
  o.max_errors = 0;
  CHECK(has(render(ds, o), "error number 25\n"));
  CHECK(has(render(ds, o), "error: 24 errors, 1 warning\n"));
  CHECK(has(render_json(ds, 2), "24 errors, 2 shown"));
  CHECK(!has(render_json(ds, 2), "error number 3\""));
  CHECK(has(render_json(ds, 0), "error number 25\""));
}

TEST_CASE("a place of several lines is marked to the end of its first") {
  Diagnostic d;
  d.code = "E0104";
  d.message = "wrong";
  d.place = {"f", 1, 5, 2};
  d.place.end_line = 3;
  RenderOptions o;
  o.source = [](const std::string&) { return "x = [1,\n2\n]\n"; };
  CHECK(render(d, o) == "f:1:5: error[E0104]: wrong\n    1 | x = [1,\n      |     ^^^\n");
  CHECK(render_json({d}).find("\"end_line\":3,\"end_col\":2") != std::string::npos);
}

TEST_CASE("names that differ in case alone are suggested alone") {
  CHECK(suggest("tB", {"ta", "tb"}) == "did you mean 'tb'?");
  CHECK(suggest("ReLU", {"relu", "selu"}) == "did you mean 'relu'?");
  CHECK(suggest("tc", {"ta", "tb"}) == "did you mean 'ta' or 'tb'?");
  CHECK(suggest("ta", {"ta"}).empty());
}
