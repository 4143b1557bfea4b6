// What people mean when they write another library's words, another format's keys, or text that is
// almost TOML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// Lower case, without '_' and without what stands before the last '.' or ':': "nn.LayerNorm" and
/// "layer_norm" become "layernorm".
std::string plain(std::string_view name) {
  const size_t prefix = name.find_last_of(".:");
  if (prefix != std::string_view::npos) name.remove_prefix(prefix + 1);
  std::string out;
  for (unsigned char c : name) {
    if (c != '_') out += static_cast<char>(std::tolower(c));
  }
  return out;
}

/// Theirs and ours, in the form of plain().
constexpr Pair kKeys[] = {
    {"inputs", "in"},        {"input", "in"},
    {"args", "in"},          {"operands", "in"},
    {"src", "in"},           {"bottom", "in"},
    {"outputs", "out"},      {"output", "out"},
    {"result", "out"},       {"dst", "out"},
    {"top", "out"},          {"id", "out"},
    {"optype", "op"},        {"type", "op"},
    {"kind", "op"},          {"operator", "op"},
    {"layer", "op"},         {"func", "op"},
    {"function", "op"},      {"module", "block"},
    {"dim", "axis"},         {"dim", "axes"},
    {"dims", "perm"},        {"dims", "axes"},
    {"dims", "shape"},       {"axes", "perm"},
    {"axis", "axes"},        {"axes", "axis"},
    {"permutation", "perm"}, {"keepdim", "keep"},
    {"keepdims", "keep"},    {"transposeb", "tb"},
    {"transb", "tb"},        {"adjy", "tb"},
    {"transposea", "ta"},    {"transa", "ta"},
    {"epsilon", "eps"},      {"min", "low"},
    {"max", "high"},         {"lo", "low"},
    {"hi", "high"},          {"to", "dtype"},
    {"type", "dtype"},       {"numheads", "heads"},
    {"nhead", "heads"},      {"iscausal", "causal"},
    {"size", "shape"},       {"newshape", "shape"},
    {"begin", "start"},      {"end", "stop"},
    {"stride", "step"},      {"path", "file"},
    {"filename", "file"},    {"maximum", "max"},
    {"default", "value"},    {"init", "value"},
    {"count", "repeat"},     {"times", "repeat"},
    {"initializer", "init"}, {"std", "scale"},
    {"p", "rate"},           {"prob", "rate"},
    {"prob", "p"},           {"probability", "rate"},
    {"probability", "p"},    {"stddev", "scale"},
    {"sections", "axis"},    {"parameters", "params"},
    {"otherwise", "else"},   {"orelse", "else"},
    {"false", "else"},       {"true", "then"},
    {"branches", "cases"},   {"cond", "while"},
    {"cond", "if"},          {"condition", "while"},
    {"condition", "if"},     {"for", "loop"},
    {"max", "limit"},        {"maxiterations", "limit"},
    {"maxsteps", "limit"},   {"trips", "limit"},
    {"carry", "out"},        {"carried", "out"},
    {"rows", "stacked"},     {"stack", "stacked"},
    {"ys", "stacked"},       {"scan", "stacked"},
    {"lowering", "lower"},   {"message", "label"},
    {"msg", "label"},        {"text", "label"},
    {"assert", "check"},     {"log", "print"},
};

/// Layers of other libraries, by how their names begin.
constexpr Pair kLayers[] = {
    {"conv", "Braid has no convolutions"},
    {"batchnorm", "when it only runs, a batch norm is 'mul' and 'add' with two params"},
    {"maxpool", "Braid has no pooling; over whole axes it is 'reduce_max'"},
    {"avgpool", "Braid has no pooling; over whole axes it is 'reduce_mean'"},
    {"globalaveragepool", "did you mean 'reduce_mean'?"},
    {"adaptiveavgpool", "did you mean 'reduce_mean'?"},
    {"flatten", "did you mean 'reshape'?"},
    {"linear", "did you mean 'linear'?"},
    {"gemm", "did you mean 'linear'?"},
    {"addmm", "did you mean 'linear'?"},
    {"fullyconnected", "did you mean 'linear'?"},
    {"innerproduct", "did you mean 'linear'?"},
    {"bmm", "did you mean 'matmul'?"},
    {"mm", "did you mean 'matmul'?"},
    {"cat", "did you mean 'concat'?"},
    {"einsum", "write it with 'transpose', 'reshape' and 'matmul'"},
    {"identity", "leave it out, and name its operand where its result was named"},
    {"embedding", "did you mean 'gather'?"},
    {"indexselect", "did you mean 'gather'?"},
    {"take", "did you mean 'gather'?"},
    {"split", "use 'slice', once for each part"},
    {"chunk", "use 'slice', once for each part"},
    {"clip", "did you mean 'clamp'?"},
    {"hardtanh", "did you mean 'clamp'?"},
    {"relu6", "did you mean 'clamp'?"},
    {"expand", "did you mean 'broadcast'?"},
    {"tile", "use 'concat' or 'broadcast'"},
    {"repeat", "use 'concat' or 'broadcast'"},
    {"constant", "did you mean 'full'?"},
    {"zeros", "did you mean 'full'?"},
    {"ones", "did you mean 'full'?"},
    {"square", "multiply it with itself"},
    {"lstm", "write one step as a block, and its state as a param with 'assign'"},
    {"gru", "write one step as a block, and its state as a param with 'assign'"},
    {"rnn", "write one step as a block, and its state as a param with 'assign'"},
    {"multiheadattention", "did you mean 'attention'?"},
    {"scaleddotproductattention", "did you mean 'attention'?"},
    {"sdpa", "did you mean 'attention'?"},
    {"topk", "Braid has no sorting; the first place is 'argmax'"},
    {"sort", "Braid has no sorting"},
    {"leakyrelu", "use 'mul' by the slope, then 'max' of x and that"},
    {"prelu", "use 'mul' by the slope, then 'select' where x is above 0"},
    {"elu", "use 'exp', 'sub' and then 'select' where x is above 0"},
    {"softplus", "use 'exp', 'add' of 1 and 'log'"},
    {"cumsum", "Braid has no running sums; of a short axis, 'matmul' with a triangle of ones"},
    {"cumprod", "Braid has no running products"},
};

constexpr Pair kRootKeys[] = {
    {"nodes", "nodes stand in [graph]: nodes = [ .. ], or [[graph.nodes]]"},
    {"node", "nodes stand in [graph]: nodes = [ .. ], or [[graph.nodes]]"},
    {"layers", "ops stand in [graph] as nodes = [ .. ], parts that repeat in [block.NAME]"},
    {"layer", "ops stand in [graph] as nodes = [ .. ], parts that repeat in [block.NAME]"},
    {"ops", "ops stand in [graph] as nodes = [ .. ]"},
    {"net", "ops stand in [graph] as nodes = [ .. ]"},
    {"network", "ops stand in [graph] as nodes = [ .. ]"},
    {"blocks", "a block is a section of its own: [block.NAME]"},
    {"model", "'format' and 'name' stand at the top, before the first section"},
    {"parameters", "weights and state stand in [params]"},
    {"variables", "weights and state stand in [params]"},
    {"initializers", "weights and state stand in [params]"},
    {"state", "state stands in [params], and a node with 'assign' changes it"},
    {"constants", "a number that never changes is op 'full', or stands among the operands"},
    {"train", "a model file says what is run; training is not part of it"},
    {"training", "a model file says what is run; training is not part of it"},
    {"optimizer", "a model file says what is run; training is not part of it"},
    {"loss", "a model file says what is run; a loss can be one of its outputs"},
};

/// The word that the place is in or just after, without quotes; its columns, from 0.
std::string_view word_at(std::string_view line, size_t& begin, size_t& end) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  begin = std::min(begin, line.size());
  while (begin > 0 && in_word(line[begin - 1])) --begin;
  end = begin;
  while (end < line.size() && in_word(line[end])) ++end;
  return line.substr(begin, end - begin);
}

std::string_view line_at(std::string_view text, uint32_t number) {
  for (uint32_t n = 1; n < number; ++n) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool is_ascii(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](char c) { return (c & 0x80) == 0; });
}

/// A value without quotation marks, or another language's word: says so and marks all of it.
bool bare_word(std::string_view line, std::string_view context, Diagnostic& d) {
  if (line.empty() || d.place.column == 0 || !is_ascii(line)) return false;
  size_t begin = d.place.column - 1, end = 0;
  const std::string_view word = word_at(line, begin, end);
  if (word.empty() || !(std::isalpha(static_cast<unsigned char>(word[0])) || word[0] == '_')) {
    return false;
  }
  const size_t before = line.find_last_not_of(' ', begin == 0 ? 0 : begin - 1);
  const bool value = begin > 0 && before != std::string_view::npos &&
                     (line[before] == '=' || line[before] == '[' || line[before] == ',');
  if (!value || context == "inline table" || context == "table header") return false;
  const std::string lower = plain(word);
  d.place.column = static_cast<uint32_t>(begin) + 1;
  d.place.end_column = static_cast<uint32_t>(end) + 1;
  d.message = fmt::format("not valid TOML: {} is no value", word);
  if (lower == "true" || lower == "false") {
    d.suggestion = fmt::format("write {}", lower);
  } else if (lower == "none" || lower == "null" || lower == "nil") {
    d.suggestion = line[before] == '='
                       ? "leave the key out"
                       : "an extent that is chosen later is a dim: [dims] B = { default = 8 }";
  } else {
    d.suggestion = fmt::format("text stands in quotation marks: \"{}\"", word);
  }
  return true;
}

}  // namespace

std::string suggest_key(std::string_view key, const std::vector<std::string>& known) {
  const auto has = [&](std::string_view k) {
    return std::find(known.begin(), known.end(), k) != known.end();
  };
  for (const auto& [theirs, ours] : kKeys) {
    if (plain(key) == theirs && has(ours)) return fmt::format("did you mean '{}'?", ours);
  }
  const std::string near = suggest(key, known);
  if (!near.empty() || known.empty() || known.size() > 12) return near;
  return fmt::format("it takes {}", fmt::join(known, ", "));
}

std::string suggest_section(std::string_view key, const std::vector<std::string>& known) {
  for (const auto& [theirs, advice] : kRootKeys) {
    if (plain(key) == theirs) return std::string(advice);
  }
  const std::string near = suggest(key, known);
  return near.empty() ? fmt::format("it takes {}", fmt::join(known, ", ")) : near;
}

std::string suggest_layer(std::string_view op) {
  const std::string name = plain(op);
  for (const OpSpec& o : ops()) {
    if (plain(o.name) == name) return fmt::format("did you mean '{}'?", o.name);
  }
  for (const auto& [theirs, advice] : kLayers) {
    if (name.rfind(theirs, 0) == 0) return std::string(advice);
  }
  return {};
}

Diagnostic syntax_error(std::string_view description, Place place, std::string_view text) {
  // "Error while parsing string: x" -> "not valid TOML: x (string)".
  constexpr std::string_view kPrefix = "Error while parsing ";
  std::string what(description);
  while (!what.empty() && (what.back() == '.' || what.back() == '\n')) what.pop_back();
  const size_t colon = what.find(": ");
  std::string context;
  if (what.compare(0, kPrefix.size(), kPrefix) == 0 && colon != std::string::npos) {
    context = what.substr(kPrefix.size(), colon - kPrefix.size());
    what = what.substr(colon + 2);
  }
  if (!what.empty()) what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));

  Diagnostic d;
  d.code = "E0101";
  d.place = std::move(place);
  const auto has = [&](std::string_view s) { return what.find(s) != std::string::npos; };
  const std::string_view line = line_at(text, d.place.line);
  if (has("could not determine value type") && d.place.column > 0 &&
      line.substr(std::min<size_t>(d.place.column - 1, line.size()), 1) == "(") {
    d.message = "not valid TOML: ( begins no value";
    d.suggestion = "a list stands in square brackets: [256, 16]";
    return d;
  }
  if (bare_word(line, context, d)) return d;
  if (has("cannot redefine existing table")) {
    d.suggestion = "the section is there already: put everything of it in one place";
  } else if (has("cannot redefine")) {
    d.suggestion = "a key stands once";
  } else if (has("expected '=', saw ':'")) {
    d.suggestion = "a key and its value are joined by =, as in format = 1";
  } else if (context == "inline table" && has("'\\n'")) {
    d.suggestion =
        "a table in braces stands on one line; on several lines a node is [[graph.nodes]]";
  } else if (has("dangling comma")) {
    d.suggestion = "remove the comma before it";
  } else if (context == "inline table" && has("expected comma or closing '}'")) {
    d.suggestion = "is a comma missing before it?";
  } else if (context == "array" && has("expected comma or closing ']'")) {
    d.suggestion = line.substr(0, 1) == "[" ? "is the list above closed by a ']'?"
                                            : "is a comma missing before it?";
  } else if (context == "table header") {
    d.suggestion = "a section is a name in square brackets: [inputs]";
  } else if (has("saw '/'")) {
    d.suggestion = "a comment begins with #";
  } else if (has("control characters")) {
    d.suggestion = "is a quotation mark missing?";
  }
  d.message = fmt::format("not valid TOML: {}{}", what,
                          context.empty() ? "" : fmt::format(" ({})", context));
  return d;
}

}  // namespace braid::toml_reader
