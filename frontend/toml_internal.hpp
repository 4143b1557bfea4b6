// How read_toml works, for its own files only. The text becomes a tree of items with places
// (toml_document.cpp), the tree a checked Model (toml_schema.cpp, toml_nodes.cpp; dims in
// toml_dims.cpp, dtypes in toml_dtypes.cpp, ops in toml_ops.cpp), the Model calls of the builder
// (toml_expand.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/builder.hpp"
#include "frontend/kernel_notation.hpp"
#include "frontend/toml.hpp"

namespace braid::toml_reader {

/// A value of the file and where it stands.
struct Entry;
struct Item {
  enum class Kind : uint8_t { string, integer, real, boolean, array, table, other };
  Kind kind = Kind::other;
  Place place{};
  std::string text{};  // string
  int64_t integer = 0;
  double real = 0;  // real; also set for integer
  bool boolean = false;
  std::vector<Item> items{};   // array
  std::vector<Entry> entries;  // table, in the order of the file
  const Entry* find(std::string_view key) const;
};
struct Entry {
  std::string key;
  Place place;  // of the key
  Item value;
};

/// Throws Error (E0101) if the text is not TOML.
Item parse_document(std::string_view text, std::string_view file);

// What people may have meant (toml_advice.cpp). Empty if unknown.
/// The parser's complaint as ours, with advice for the usual mistakes.
Diagnostic syntax_error(std::string_view description, Place place, std::string_view text);
/// For a key that is not among `known`: another format's word, a near name, or the few known ones.
std::string suggest_key(std::string_view key, const std::vector<std::string>& known);
/// The same for keys at the top of the file.
std::string suggest_section(std::string_view key, const std::vector<std::string>& known);
/// For an op: what a layer or op of another library is here.
std::string suggest_layer(std::string_view op);

/// A word of the file and where it stands.
struct Text {
  std::string text;
  Place place;
};

/// The mistakes found so far.
struct Report {
  std::vector<Diagnostic> list{};
  /// A section could not be read, so what it may define is not reported as unknown.
  bool section_lost = false;
  /// The same for values: what a node makes is not known, or a section was lost.
  bool names_lost = false;
  void lose_section() { section_lost = names_lost = true; }

  Diagnostic& error(std::string_view code, const Place& place, std::string message,
                    std::string suggestion = {});
  /// Names of the graph while a block is read, which does not see them.
  std::set<std::string> outer{};

  /// E0104 unless the item is of this kind (an integer is a real as well); `what` names it:
  /// "'streams'".
  bool expect(const Item& item, Item::Kind kind, std::string_view what,
              std::string suggestion = {});
  /// The same for numbers, where people also write a dim.
  bool expect_number(const Item& item, Item::Kind kind, std::string_view what) {
    return expect(
        item, kind, what,
        item.kind == Item::Kind::string ? "dims have no place here: write the number" : "");
  }
  /// E0204 with what may be meant; `user` says who asks.
  void unknown_name(const Text& name, std::string_view user, const std::vector<std::string>& known);
  /// E0102 for every key that is not in `allowed`; true if there was none.
  bool check_keys(const Item& table, std::initializer_list<std::string_view> allowed,
                  std::string_view where);
  /// The entry of a table, or E0103.
  const Entry* need(const Item& table, std::string_view key, std::string_view where);
  /// E0206 unless the text may name a value, param, block or scope.
  bool check_name(std::string_view name, const Place& place, std::string_view what);
};

/// [dims] and the expressions over them.
class Dims {
 public:
  /// Reads the section; `table` may be null.
  Dims(const Item* table, Report& report);
  ~Dims();
  /// An extent: an integer, a dim or an expression. Nothing after a mistake, which is reported.
  std::optional<DimArg> extent(const Item& item);
  /// A list of extents; with `wildcard` one may be -1.
  std::optional<std::vector<DimArg>> shape(const Item& item, std::string_view what,
                                           bool wildcard = false);
  /// Every name of the section, and what it is in terms of symbols.
  std::map<std::string, std::string, std::less<>> texts() const;
  /// The names that are no symbols.
  std::map<std::string, Place> constants() const;
  /// Declares the symbols, in the order of the file.
  void declare(Graph& graph) const;

 private:
  struct Named;
  struct Parser;
  std::optional<Dim> resolve(size_t index);
  std::optional<Dim> symbol(Named& named);
  std::optional<Dim> evaluate(const Item& item);

  Report& report_;
  DimTable table_;
  std::vector<Named> named_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<size_t> path_;  // dims being resolved, for cycles
};

/// [dtypes] and the dtypes themselves.
class DTypes {
 public:
  /// Reads the section; `table` may be null. `given` replaces values of the file; a name that the
  /// file lacks throws Error E0605.
  DTypes(const Item* table, const TomlDTypes& given, Report& report);
  /// A dtype by its own or a given name, or E0205.
  std::optional<DType> read(const Item& item, std::string_view what);

 private:
  Report& report_;
  std::map<std::string, std::optional<DType>, std::less<>> named_;  // nothing after a mistake
};

/// What types are written with.
struct Types {
  Dims dims;
  DTypes dtypes;
};

/// What an op's attribute may hold.
enum class AttrKind : uint8_t { integer, number, boolean, dtype, integers, shape, free_shape };
using AttrValue = std::variant<int64_t, double, bool, DType, std::vector<int>, std::vector<DimArg>>;
using Attrs = std::map<std::string, AttrValue, std::less<>>;
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = false;
};

struct OpCall {
  Graph& graph;
  const std::vector<In>& in;
  const Attrs& attrs;
  Where where;

  template <class T>
  T get(std::string_view name, T otherwise) const {
    const auto it = attrs.find(name);
    return it == attrs.end() ? otherwise : std::get<T>(it->second);
  }
};

/// One op as users write it.
struct OpSpec {
  std::string name;
  int min_in;
  int max_in;    // -1: any number
  bool numbers;  // operands may be numbers; a binary op then also takes `rhs`
  std::vector<AttrSpec> attrs;
  std::function<Tensor(const OpCall&)> build;
  /// In place of `build`, for an op with several results, of which `out` names the first ones.
  std::function<std::vector<Tensor>(const OpCall&)> build_all{};
  int results = 1;
};
std::vector<OpSpec> make_op_table();
/// The table of ops, sorted by name.
const std::vector<OpSpec>& ops();
const OpSpec* find_op(std::string_view name);
/// "did you mean", which also knows what other libraries call the op, with so many operands.
std::string suggest_op(std::string_view name, size_t operands);
/// Reads the attributes that `spec` allows from a node; false after a mistake.
bool read_attrs(const OpSpec& spec, const Item& node, Types& types, Report& report, Attrs& attrs);

/// An operand: a name, or a number where there is no name.
struct Operand {
  Place place;
  std::string name;
  double number = 0;
};

/// A block as a body of a branch or loop.
struct BodyUse {
  Text block;
  std::string scope;  // "then", "else", "case0", "body" or "while", below that of the node
};

struct Node {
  enum class Kind : uint8_t {
    op,
    block,
    assign,
    update,
    host,
    library,
    kernel,
    branch_if,
    branch_switch,
    loop_while,
    loop,
    print,
    item,
    check
  };
  bool bad = true;  // it holds a mistake; its results are poison
  Kind kind = Kind::op;
  Place place{};         // of the op's, block's or param's name
  std::string target{};  // of that name
  std::vector<Text> out{};
  std::vector<Operand> in{};
  const OpSpec* op = nullptr;
  Attrs attrs{};
  std::vector<Operand> at{};       // update: where the box begins; branches: what decides
  int64_t repeat = 0;              // block: number of copies; 0 = not repeated
  std::string scope{};             // block, region: of its scope, without the copy's number
  std::set<std::string> share{};   // block: params that all copies have in common
  std::vector<TypeArg> results{};  // host and library: of their results
  bool pure = false;               // host
  size_t inout = 0;                // library: so many of `in`, the last ones, are changed
  DimArg workspace = 0;            // library
  std::string reference{};         // library
  ir::HostWay way = ir::HostWay::automatic;
  struct Change {
    std::string param;
    size_t out;  // which name of `out` its new value has, if there are so many
  };
  std::vector<Change> changes{};  // kernel and library: params that it changes in place
  bool outside = false;           // `graph = false`
  /// Branches: then and else, or the cases. Loops: the body and, if there is one, the condition.
  std::vector<BodyUse> bodies{};
  size_t stacked = 0;             // loops: how many of `out`, the last ones, are stacked rows
  std::optional<DimArg> limit{};  // loops
  ir::Lowering lowering = ir::Lowering::automatic;
  int unroll = 0;
  std::string label{};                // messages
  std::optional<double> low, high{};  // check: of a range
};
inline bool is_region(Node::Kind k) { return k >= Node::Kind::branch_if && k <= Node::Kind::loop; }
inline bool is_message(Node::Kind k) { return k >= Node::Kind::print; }
/// The blocks that the node is made of.
std::vector<Text> blocks_of(const Node& n);
/// `results`, `pure` and `way` of a node with `host`, whose `out` is read; false after a mistake
/// (toml_host.cpp).
bool read_host_attrs(const Item& item, Types& types, Report& report, Node& node);
/// `results`, `workspace` and `reference` of a node with `library`, whose `in`, `inout` and `out`
/// are read; false after a mistake (toml_host.cpp).
bool read_library_attrs(const Item& item, Types& types, Report& report, Node& node);
struct Surroundings;
/// A node with `kernel`, whose `in` and `out` are read: false after a mistake (toml_kernels.cpp).
bool check_kernel_node(const Item& item, const Surroundings& around, Report& report, Node& node);
/// Everything but `in` and `out` of a branch or loop, or of a message, whose kind, `in` and `out`
/// are read; false after a mistake (toml_regions.cpp).
bool read_region_attrs(const Item& item, const Surroundings& around, Types& types, Report& report,
                       Node& node);
bool read_message_attrs(const Item& item, Report& report, Node& node);

/// The nodes of a graph or block.
struct NodeList {
  std::vector<Node> nodes;
  std::vector<size_t> order;       // every node after those whose results it takes
  std::set<std::string> assigned;  // params that a node of the list assigns or updates
};

/// An input or param; without a type it is poison.
struct Declaration {
  Text name;
  std::optional<TypeArg> type;
  ParamOpts options{};
};

/// A runtime scalar; without a dtype it is poison.
struct ScalarDeclaration {
  Text name;
  std::optional<DType> dtype;
  double value = 0;
};

/// A section of [kernels].
struct KernelDeclaration {
  Text name;
  KernelSpec spec;
  std::vector<KernelParameter> parameters;
  bool bad = false;
};

struct Block {
  Text name;
  std::vector<Text> in;
  std::vector<Text> out;
  std::vector<Declaration> params;
  NodeList list;
  bool bad = false;
};

struct Model {
  std::string name;
  std::vector<Declaration> inputs;
  std::vector<ScalarDeclaration> scalars;
  std::vector<Declaration> params;
  std::map<std::string, KernelDeclaration> kernels;
  std::map<std::string, Block> blocks;
  NodeList graph;
  std::vector<std::pair<Text, Text>> outputs;  // name, value
  TomlCompile compile;
  std::optional<WeightsFrom> weights;
};

/// The tables that types are written with; null where the file has none.
struct Sections {
  const Item* dims = nullptr;
  const Item* dtypes = nullptr;
};
/// Checks the names of the sections.
Sections check_root(const Item& root, Report& report);
/// Checks all that needs no types and builds the model.
Model read_model(const Item& root, Report& report, Types& types);
/// [kernels] (toml_kernels.cpp).
std::map<std::string, KernelDeclaration> read_kernels(const Item& root, Types& types,
                                                      Report& report);
/// [scalars] (toml_scalars.cpp).
std::vector<ScalarDeclaration> read_scalars(const Item& root, Types& types, Report& report);
/// [compile] and [weights] (toml_settings.cpp).
TomlCompile read_compile(const Item& root, Report& report);
std::optional<WeightsFrom> read_weights(const Item& root, Report& report);
/// A string of a table; nothing if there is none or after a mistake.
std::optional<std::string> read_string(const Item& table, std::string_view key, Report& report);

/// The names that a list's nodes may take, each with the place that defines it.
using Names = std::map<std::string, Place, std::less<>>;
/// Adds a name, or reports E0201.
void define(Names& names, const Text& name, Report& report);

/// A name or a list of names; nothing after a mistake.
std::optional<std::vector<Text>> read_names(const Item& item, std::string_view what,
                                            Report& report);
/// What the nodes of a list may use besides each other's results.
struct Surroundings {
  const std::map<std::string, Block>& blocks;
  const std::vector<Declaration>& params;  // what they may assign
  std::set<std::string> inputs;            // what they may not
  const std::map<std::string, KernelDeclaration>& kernels;
};
/// Reads `nodes` and checks each alone.
NodeList read_nodes(const Item& nodes, const Surroundings& around, Types& types, Report& report);
/// Checks names and scopes across the list and puts it in order. `names`: inputs and params on
/// entry; the results of nodes are added.
void connect(NodeList& list, Names& names, Report& report);

/// What is legal and still seldom meant: a param's old value read where the new one is at hand, and
/// what nothing uses. For a model without mistakes.
std::vector<Diagnostic> find_warnings(const Model& model);

/// Calls the builder, which must collect errors. Errors of the builder inside blocks get notes.
/// Returns warnings: marks that no op of a node can carry (E0509).
std::vector<Diagnostic> expand(const Model& model, Graph& graph);

}  // namespace braid::toml_reader
