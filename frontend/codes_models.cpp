#include "frontend/codes.hpp"

namespace braid {

std::vector<CodeInfo> codes_of_models() {
  return {
      {"E0201", "a name is missing or defined twice", "rename one",
       "All inputs, scalars, params and results of one graph or block have different names, "
       "because "
       "nodes and callers refer to them by name.",
       "{ out = \"h\", op = \"relu\", in = [\"x\"] },\n{ out = \"h\", op = \"exp\", in = [\"h\"] "
       "},",
       "{ out = \"r\", op = \"relu\", in = [\"x\"] },\n{ out = \"h\", op = \"exp\", in = [\"r\"] "
       "},"},
      {"E0202", "unknown op", "use the one suggested",
       "TOML.md lists the ops. Layers of other libraries are ops with params of their own here: a "
       "Linear "
       "is `linear` with w and b among its operands.",
       "{ out = \"y\", op = \"permute\", in = [\"x\"], perm = [1, 0] }",
       "{ out = \"y\", op = \"transpose\", in = [\"x\"], perm = [1, 0] }"},
      {"E0203", "unknown block", "use the one suggested",
       "`block = \"NAME\"` uses the section [block.NAME] of the same file.",
       "{ out = \"y\", block = \"layers\", in = [\"x\"] }",
       "{ out = \"y\", block = \"layer\", in = [\"x\"] }"},
      {"E0204", "unknown name of a value, input or param", "use the one suggested, or define it",
       "A node takes names of inputs, scalars, params and results of other nodes in the same graph "
       "or "
       "block, in any order. A block sees only its own names: values from outside come in through "
       "its "
       "`in`.",
       "[block.b]\nin = [\"h\"]\nout = [\"y\"]\nnodes = [ { out = \"y\", op = \"mul\", in = "
       "[\"h\", \"scale\"] } ]",
       "[block.b]\nin = [\"h\", \"s\"]\nout = [\"y\"]\nnodes = [ { out = \"y\", op = \"mul\", in = "
       "[\"h\", \"s\"] } ]"},
      {"E0205", "unknown dtype", "f32 f16 bf16 f64 i32 i64 i8 u8 b1",
       "Other names for dtypes can be given in the section [dtypes].", "dtype = \"float32\"",
       "dtype = \"f32\""},
      {"E0206", "a name that cannot be used here",
       "letters, digits, _, . and - (dims and dtypes: no . and -)",
       "Names begin with a letter or _, since they appear in files, expressions and command lines. "
       "A "
       "dtype's own name cannot name another dtype.",
       "\"2x\" = { dtype = \"f32\", shape = [4] }", "x2 = { dtype = \"f32\", shape = [4] }"},
      {"E0301", "shapes or dtypes do not fit the op", "compare the operands shown",
       "Below the caret stands every operand with its extents, by name and value, and where it "
       "comes "
       "from. Nothing converts in silence: dtypes must be equal, and shapes broadcast as in NumPy, "
       "aligned at the last axis.",
       "w = { dtype = \"f32\", shape = [16, 256] }\n{ out = \"y\", op = \"matmul\", in = [\"x\", "
       "\"w\"] }     # x is [8, 256]",
       "{ out = \"y\", op = \"matmul\", in = [\"x\", \"w\"], tb = true }"},
      {"E0302", "an axis or list is out of range", "axes count from 0, negative ones from the end",
       "A tensor of rank 3 has the axes 0, 1 and 2, or -3, -2 and -1. Lists of axes name each "
       "once.",
       "{ out = \"y\", op = \"softmax\", in = [\"x\"], axis = 3 }     # x is [2, 4, 8]",
       "{ out = \"y\", op = \"softmax\", in = [\"x\"], axis = -1 }"},
      {"E0303", "an argument of an op is not allowed", "see the sentence",
       "The operands fit, but an attribute has no meaning for them, such as a step of 0 or a mean "
       "over "
       "an axis whose extent is not known before the model is compiled.",
       "slice(x, {.axis = 0, .step = 0})", "slice(x, {.axis = 0, .step = 2})"},
      {"E0304", "assign, update or read of what is no param", "declare it with param",
       "Only params keep their value from one launch to the next, so only they can be changed.",
       "Tensor h = relu(x);\ng.assign(h, y);",
       "Tensor p = g.param(\"p\", {f32, {4}});\ng.assign(p, y);"},
      {"E0305", "tensors of different graphs, or of none", "build one model in one graph",
       "A Tensor is a handle that belongs to the Graph that made it, and ends with it.",
       "Graph a, b;\nTensor y = a.input(\"x\", t) + b.input(\"x\", t);",
       "Graph g;\nTensor y = g.input(\"x\", t) + g.input(\"z\", t);"},
      {"E0306", "a host op without the name of a function", "give the name it is registered under",
       "Graphs know host functions by name; the caller gives the functions.", "g.host(\"\", {x});",
       "g.host(\"log\", {x});"},
      {"E0307", "a tensor is used after the closure that made it",
       "return it from there, and use what the branch or loop gives",
       "What a closure makes is part of a branch or loop, which may run it many times or never. "
       "Only "
       "what it returns comes out.",
       "Tensor h;\ng.if_(yes, [&] { h = exp(x); });\ng.output(\"y\", h);",
       "Tensor h = g.if_(yes, [&] { return exp(x); }, [&] { return x; });\ng.output(\"y\", h);"},
      {"E0308", "the sides of a branch do not agree, or a loop's values before and after",
       "cast, reshape or broadcast one of them",
       "A branch has one type for each result, so all its sides give as many, of the same types. "
       "What "
       "a loop carries keeps its type, since the next iteration takes it again.",
       "g.loop(4, x, [&](Tensor i, Tensor v) { return sum(v); });     // x is [8]",
       "g.loop(4, x, [&](Tensor i, Tensor v) { return v * sum(v); });"},
      {"E0309", "what cannot stand in a branch or loop, or in a loop's condition",
       "move it outside, or from the condition into the body",
       "Inputs and outputs are a model's, not a body's. A condition is asked before each iteration "
       "and, once more, before none, so it changes no param and sends no message.",
       "[block.more]\nin    = [\"x\"]\nout   = [\"m\"]\nnodes = [ { print = \"x\" }, { out = "
       "\"m\", "
       "op = \"gt\", in = [\"x\", 0] } ]",
       "[block.more]\nin    = [\"x\"]\nout   = [\"m\"]\nnodes = [ { out = \"m\", op = \"gt\", in = "
       "[\"x\", 0] } ]"},
      {"E0320", "unknown kernel", "use the one suggested, or define it",
       "`kernel = \"NAME\"` uses the section [kernels.NAME] of the same file.",
       "{ out = \"y\", kernel = \"ropes\", in = [\"x\"] }",
       "{ out = \"y\", kernel = \"rope\", in = [\"x\"] }"},
      {"E0321", "a kernel's parameter or extent is malformed", "see the forms in the sentence",
       "Parameters stand in the order of the function's: in, out or inout with a name and a type, "
       "or a dtype and a number. Extents are integers, names, + - * / and parentheses; launches "
       "and numbers may round up with ceil(a, b).",
       "parameters = [\"x: f32[T]\"]\ngrid = \"T / 128 rounded up\"",
       "parameters = [\"in x: f32[T]\"]\ngrid = \"ceil(T, 128)\""},
      {"E0322", "a tensor does not fit the kernel's parameter", "compare the two lines shown",
       "Dtypes and extents must be equal. A name in a parameter that is no dim of the model stands "
       "for the extent that the tensor has there, the same wherever it stands in one kernel.",
       "parameters = [\"in x: f16[T]\", ..]\n{ kernel = \"k\", in = [\"x\"], .. }     # x is "
       "f32[8]",
       "{ out = \"h\", op = \"cast\", in = [\"x\"], dtype = \"f16\" },\n"
       "{ kernel = \"k\", in = [\"h\"], .. }"},
      {"E0323", "too few or too many tensors for a kernel", "one for each parameter",
       "`in` names a tensor for each `in` and `inout` parameter, in their order; `out` a result "
       "for "
       "each `out` parameter and, where their new values are wanted, each `inout` one.",
       "{ out = \"y\", kernel = \"rope\", in = [\"x\"] }",
       "{ out = \"y\", kernel = \"rope\", in = [\"x\", \"cos\", \"sin\"] }"},
      {"E0324", "a kernel's launch that no device can do",
       "change its grid, block or shared memory, or the dims",
       "A block has at most 1024 threads, a grid 1 to 2147483647 blocks along x and 65535 along y "
       "and z, and shared memory ends at what the target has for a block.",
       "block = 2048", "block = 256"},
      {"E0325", "a kernel without code", "name a file that can be read, or write the code",
       "The code stands in `file`, relative to the model, or in `code`.",
       "[kernels.rope]\nfile = \"rop.cu\"", "[kernels.rope]\nfile = \"rope.cu\""},
      {"E0330", "a library op without the name of a function",
       "give the name it is registered under",
       "Graphs know library functions by name; the caller gives the functions.",
       "g.library(\"\", {x});", "g.library(\"fft\", {x}, {{f32, {64}}});"},
      {"E0331", "a library op that gives nothing, or changes a tensor twice",
       "give it results, or tensors to change, each once",
       "What a library op does is seen in its results and in what it changes in place alone.",
       "g.library(\"step\", {x}, {}, {.inout = {p, p}});",
       "g.library(\"step\", {x}, {}, {.inout = {p}});"},
      {"E0332", "a workspace that is too large", "ask for less than 2^40 bytes",
       "It is planned with the other temporaries, for that call alone.",
       "g.library(\"fft\", {x}, {{f32, {64}}}, {.workspace = int64_t{1} << 41});",
       "g.library(\"fft\", {x}, {{f32, {64}}}, {.workspace = 1 << 20});"},
      {"E0333", "a node with `library` whose `out` does not fit",
       "name the results, and behind them, if they are used, what `inout` changes",
       "`results` has the types of what the function makes; `inout` names what it changes in "
       "place.",
       "{ out = [\"y\", \"z\"], library = \"fft\", in = [\"x\"], results = [{ dtype = \"f32\", "
       "shape = "
       "[64] }] }",
       "{ out = [\"y\"], library = \"fft\", in = [\"x\"], results = [{ dtype = \"f32\", shape = "
       "[64] }] "
       "}"},
      {"E0340", "a mask or tensor that a selection cannot take", "compare first: `gt`, `ne`, ..",
       "`compact` takes the mask first, as `numpy.compress` does, and `masked_select` the tensor "
       "first, as PyTorch does. Masks are b1. Indices are i32, and a scalar has no axis that one "
       "could name.",
       "{ out = [\"v\", \"n\"], op = \"masked_select\", in = [\"x\", \"scores\"] }",
       "{ out = \"m\", op = \"gt\", in = [\"scores\", 0] },\n{ out = [\"v\", \"n\"], op = "
       "\"masked_select\", in = [\"x\", \"m\"] }"},
      {"E0341", "unique of too many elements", "take parts of it",
       "unique compares each element with each: it needs no memory for that, but the time of a "
       "square.",
       "{ out = [\"v\", \"n\"], op = \"unique\", in = [\"x\"] }     # x is [1000000]",
       "{ out = [\"v\", \"n\"], op = \"unique\", in = [\"x\"] }     # x is [16384]"},
      {"E0342", "a count that is no i32[] or i64[], or is not of one axis",
       "give the second result of nonzero, masked_select, unique or compact, and one axis",
       "A reduction or softmax with a second operand takes it for the number of elements that "
       "count along its axis.",
       "{ out = \"s\", op = \"reduce_sum\", in = [\"x\", \"y\"] }",
       "{ out = \"s\", op = \"reduce_sum\", in = [\"x\", \"count\"], axes = [0] }"},
      {"E0401", "a dim expression is malformed", "integers, names, + - * and parentheses",
       "Extents are integers, names of dims, or expressions over them; / stands in model files "
       "only and "
       "must come out even.",
       "shape = [\"4D\"]", "shape = [\"4*D\"]"},
      {"E0402", "a dim's default or max is negative, or default > max", "correct the numbers",
       "A symbol may have a default, which is used when the caller names no value, and a max, "
       "which no "
       "value may exceed.",
       "B = { default = 128, max = 64 }", "B = { default = 64, max = 128 }"},
      {"E0403", "unknown dim", "use the one suggested, or declare it",
       "Every name in a shape stands in [dims].", "shape = [\"Batch\", 8]",
       "[dims]\nBatch = { default = 4 }"},
      {"E0404", "dims that depend on each other", "break the cycle shown",
       "Dims may be written in any order, but not in terms of themselves.",
       "D = \"F/4\"\nF = \"4*D\"", "D = 768\nF = \"4*D\""},
      {"E0405", "an extent that is negative, not whole or too large", "correct the expression",
       "Extents are integers from 0; a division must come out even, and a tensor has at most 8 "
       "axes. -1 "
       "is allowed in reshape only.",
       "x = { dtype = \"f32\", shape = [-1, 8] }",
       "[dims]\nB = { default = 4 }\n[inputs]\nx = { dtype = \"f32\", shape = [\"B\", 8] }"},
      {"E0501", "nodes that depend on each other", "break the cycle shown",
       "The order of nodes in the file does not matter, but a node cannot need its own result. A "
       "value "
       "that goes from one launch to the next is a param with an `assign`.",
       "{ out = \"a\", op = \"add\", in = [\"x\", \"b\"] },\n{ out = \"b\", op = \"relu\", in = "
       "[\"a\"] },",
       "{ out = \"a\", op = \"add\", in = [\"x\", \"state\"] },\n{ out = \"b\", op = \"relu\", in "
       "= [\"a\"] },\n"
       "{ assign = \"state\", in = [\"b\"] },"},
      {"E0502", "a model without outputs", "name at least one",
       "What no output needs would never be computed. A graph made in C++ may instead change a "
       "param.",
       "[outputs]", "[outputs]\nprobs = \"p\""},
      {"E0503", "blocks that use each other", "break the cycle shown",
       "A block is copied where it is used, so it cannot contain itself. For many copies in a row "
       "there "
       "is `repeat`.",
       "[block.b]\nnodes = [ { out = \"y\", block = \"b\", in = [\"x\"] } ]",
       "{ out = \"y\", block = \"b\", in = [\"x\"], repeat = 12 }"},
      {"E0504", "a node with the wrong number of operands", "see the sentence",
       "Ops, blocks, assign and update take and give a fixed number of values. A repeated block "
       "gives no "
       "more outputs than it has inputs, since one copy's outputs are the next one's first inputs. "
       "A "
       "block that is a body of a branch or loop takes the first of `in`, and gives all of `out` "
       "and "
       "`stacked`.",
       "{ out = \"y\", op = \"add\", in = [\"a\", \"b\", \"c\"] }",
       "{ out = \"s\", op = \"add\", in = [\"a\", \"b\"] },\n{ out = \"y\", op = \"add\", in = "
       "[\"s\", \"c\"] },"},
      {"E0505", "two nodes change one param", "let one do it; its `out` names the new value",
       "The order of nodes does not matter, so it would not be known which change comes first.",
       "{ assign = \"p\", in = [\"a\"] },\n{ assign = \"p\", in = [\"b\"] },",
       "{ assign = \"p\", in = [\"b\"] },"},
      {"E0506", "a model with too many nodes, or blocks nested too deep",
       "use fewer or smaller repeats",
       "A model has at most a million nodes, blocks counted as often as they are used, and blocks "
       "stand "
       "at most 500 deep in each other.",
       "repeat = 10000                                       # of a block of 200 nodes",
       "repeat = 100"},
      {"E0507", "a warning: a param's old value is read while nothing reads its new one",
       "read the `out` of the update or assign",
       "In a graph a param's own name is its value from before the launch, wherever it stands. A "
       "cache that is updated and then read by its own name lacks what this launch wrote; the "
       "`out` "
       "of the update has it. The model runs as it is written.",
       "{ update = \"cache\", in = [\"row\"], at = [\"pos\", 0] },\n{ out = \"y\", op = "
       "\"matmul\", in = [\"q\", \"cache\"], tb = true },",
       "{ update = \"cache\", in = [\"row\"], at = [\"pos\", 0], out = \"now\" },\n{ out = \"y\", "
       "op = "
       "\"matmul\", in = [\"q\", \"now\"], tb = true },"},
      {"E0508", "a warning: an input, param, block or result that nothing uses",
       "use it, or remove it",
       "What no output and no change of a param needs is not computed. The model runs as it is "
       "written.",
       "[inputs]\nx = { .. }\nunused = { .. }", "[inputs]\nx = { .. }"},
      {"E0509", "a warning: `graph = false` on a node that it does nothing for",
       "remove it, or mark the op that uses the result",
       "A reshape, a transpose and other views run no kernel: whoever uses the result reads the "
       "operand's bytes. So there is nothing that could stand outside graphs.",
       "{ out = \"y\", op = \"transpose\", in = [\"x\"], graph = false },",
       "{ out = \"y\", op = \"transpose\", in = [\"x\"] },"},
  };
}

}  // namespace braid
