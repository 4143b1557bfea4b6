#include "frontend/codes.hpp"

namespace braid {

std::vector<CodeInfo> codes_of_files() {
  return {
      {"E0100", "a file cannot be read", "check the path",
       "The file does not exist, is a folder, or may not be read. The path of [weights] counts "
       "from "
       "the model file, all others from the working directory.",
       "braid check modle.toml", "braid check model.toml"},
      {"E0101", "the text is not TOML, or not `.bir`", "mend the syntax at the caret",
       "The parser stopped at the place shown; nothing after it was read. Strings stand in "
       "quotation "
       "marks, a table in braces stands on one line and does not end in a comma, and each key "
       "stands "
       "in a section once.",
       "x = { dtype = f32, shape = [4], }", "x = { dtype = \"f32\", shape = [4] }"},
      {"E0102", "unknown key or attribute",
       "use one of those suggested; TOML.md and ir/README.md list them",
       "Whatever the reader does not know is an error, so that a typing mistake cannot change a "
       "model "
       "in silence.",
       "{ out = \"y\", op = \"matmul\", in = [\"x\", \"w\"], transpose_b = true }",
       "{ out = \"y\", op = \"matmul\", in = [\"x\", \"w\"], tb = true }"},
      {"E0103", "a key is missing", "add it", "The table or the op has no default for this key.",
       "x = { dtype = \"f32\" }", "x = { dtype = \"f32\", shape = [4, 8] }"},
      {"E0104", "a value of the wrong kind, such as a number for a name", "give the kind named",
       "Numbers, strings, booleans, lists and tables do not become each other. A dim inside a list "
       "needs quotation marks.",
       "x = { dtype = \"f32\", shape = \"4, 8\" }", "x = { dtype = \"f32\", shape = [4, 8] }"},
      {"E0105", "another version of the format", "`format = 1`, `bir 2`",
       "A model file says in its first line which version of the format it is written in, so that "
       "a "
       "later version may change what the rest means.",
       "name = \"mlp\"", "format = 1\nname = \"mlp\""},
      {"E0106", "a node without, or with several, of op, block, assign, update, if, ..",
       "keep one of them",
       "Each node in `nodes` is one thing: an op, a use of a block, a change of a param, a branch "
       "or "
       "loop, a call of the host or a message.",
       "{ out = \"y\", type = \"relu\", in = [\"x\"] }",
       "{ out = \"y\", op = \"relu\", in = [\"x\"] }"},
      {"E0107", "a value that is not allowed here", "use one in the range named",
       "The value has the right kind, but is out of range or not among the names that the key "
       "takes.",
       "w = { dtype = \"f32\", shape = [4], init = \"xavier\" }",
       "w = { dtype = \"f32\", shape = [4], init = \"normal\", scale = 0.02 }"},
      {"E0110", "a `.npy` file that is damaged or of an unsupported kind",
       "write it again with numpy.save",
       "Little-endian arrays in C order of the dtypes f2 f4 f8 i1 u1 i4 i8 b1 are read. Objects, "
       "records, strings and Fortran order are not.",
       "numpy.save(\"x.npy\", x.T)", "numpy.save(\"x.npy\", numpy.ascontiguousarray(x.T))"},
      {"E0111", "a `.safetensors` file that is damaged or another format",
       "write it again with safetensors",
       "The header must describe the file to the byte: every tensor inside it, no holes, no "
       "overlaps, "
       "no key twice, sizes that follow from dtypes and shapes. The sentence says what differs; a "
       "file "
       "that is cut short was often not downloaded to its end.",
       "torch.save(model.state_dict(), \"m.safetensors\")",
       "safetensors.torch.save_file(model.state_dict(), \"m.safetensors\")"},
      {"E0112", "weights lack params of the model", "compare the names and shapes shown",
       "Every param needs a tensor of its name in the file of weights, where '/' and '.' are the "
       "same. "
       "Only state that the graph writes and that begins as zeros or ones may miss.",
       "[params]\nwq = { dtype = \"f32\", shape = [768, 768] }       # the file has attn.q.weight",
       "[params]\n\"attn.q.weight\" = { dtype = \"f32\", shape = [768, 768] }"},
      {"E0113", "weights hold tensors that the model has no param for",
       "list them in `[weights] ignore`",
       "A tensor that nobody reads is often a param that was forgotten or misspelt, so leaving one "
       "out "
       "has to be said.",
       "[weights]\nfile = \"m.safetensors\"",
       "[weights]\nfile = \"m.safetensors\"\nignore = [\"lm_head.*\", \"position_ids\"]"},
      {"E0114", "tensors of weights have another shape or kind of dtype than their params",
       "compare the types shown",
       "Floats become the param's width and integers theirs, but a float, an integer and a b1 do "
       "not "
       "become each other, and shapes must be equal. PyTorch keeps the weight of a Linear as [out, "
       "in]: "
       "declare it so and use linear or matmul with tb = true.",
       "w = { dtype = \"f32\", shape = [256, 512] }                    # the file has [512, 256]",
       "w = { dtype = \"f32\", shape = [512, 256] }\n"
       "{ out = \"y\", op = \"matmul\", in = [\"x\", \"w\"], tb = true }"},
      {"E0115", "names of weights and params are ambiguous", "rename one",
       "'/' and '.' are the same in the names of weights, so two tensors may fit one param, or two "
       "params one tensor, unless the names are equal to the letter. In a folder of weights a name "
       "stands in one file only.",
       "params l/w and l.w, and one tensor l.w", "params l/w and l/v"},
      {"E0116", "a weight that its param's dtype cannot hold", "use a wider dtype",
       "A finite number would become infinite, or an integer would wrap. f16 ends at 65504; bf16 "
       "has "
       "the range of f32.",
       "w = { dtype = \"f16\", shape = [4] }                           # the file holds 70000",
       "w = { dtype = \"bf16\", shape = [4] }"},
  };
}

}  // namespace braid
