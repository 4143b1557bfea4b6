// Writes the fuzzers' first inputs and dictionaries from what the repository has: examples, tests
// and documents. usage: fuzz_seeds SOURCE_DIR OUT_DIR makes OUT_DIR/TARGET/* and
// OUT_DIR/TARGET.dict.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "frontend/toml.hpp"
#include "ir/file.hpp"
#include "ir/text.hpp"
#include "tests/unit/random_control.hpp"
#include "tests/unit/random_program.hpp"
#include "tests/unit/safetensors_help.hpp"

namespace fs = std::filesystem;
using namespace braid;
using testing::write_safetensors;

namespace {

struct Seeds {
  fs::path source, out;

  /// Large ones would leave no time for others.
  void add(const std::string& target, const std::string& name, const std::string& bytes) const {
    constexpr size_t kMostBytes = 4096, kMostProgramBytes = 16384;
    if (bytes.size() > (target == "braid" ? kMostProgramBytes : kMostBytes)) return;
    fs::create_directories(out / target);
    std::ofstream(out / target / name, std::ios::binary) << bytes;
  }

  /// The program without its head, as braid_fuzz takes it.
  void add_program(const std::string& name, const Program& program) const {
    const std::vector<std::byte> file = write_program(program);
    uint64_t header = 0;
    std::memcpy(&header, file.data() + 16, sizeof header);
    const auto header_bytes = static_cast<uint32_t>(header);
    std::string bytes(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    bytes.append(reinterpret_cast<const char*>(file.data()) + 40, file.size() - 40);
    add("braid", name, bytes);
  }

  /// The graph as text and its plan, without the kernels' long texts.
  void add_graph(const std::string& name, const ir::Graph& graph) const {
    add("bir", name, ir::print(graph));
    Program program = compile(graph);
    for (Module& m : program.modules) m.source = "source";
    add_program(name, program);
  }

  /// What stands between fences in a document, and a dictionary of what stands in backquotes.
  void add_document(const std::string& target, const std::string& file) const {
    std::ifstream in(source / file);
    std::set<std::string> words{"2147483648", "4611686018427387904", "1000000000000000000",
                                "9223372036854775807"};
    std::string block;
    bool inside = false;
    int count = 0;
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("```", 0) == 0) {
        inside = !inside;
        if (!inside) add(target, "document" + std::to_string(count++), block);
        block.clear();
      } else if (inside) {
        block += line + "\n";
      }
      std::string word;
      for (const char c : line + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
          word += c;
        } else {
          if (word.size() > 1 && std::islower(static_cast<unsigned char>(word[0]))) {
            words.insert(word);
          }
          word.clear();
        }
      }
    }
    std::ofstream dictionary(out / (target + ".dict"));
    for (const std::string& word : words) dictionary << '"' << word << "\"\n";
  }
};

/// Without the upper half of the header's length, as safetensors_fuzz takes it.
void add_weights(const Seeds& seeds, const std::string& name, const std::string& file) {
  const std::string bytes = read_file(file);
  seeds.add("safetensors", name, bytes.substr(0, 4) + bytes.substr(8));
}

void arrays(const Seeds& seeds) {
  const fs::path file = seeds.out / "array.npy";
  for (const DType dtype : {f16, f32, f64, i8, u8, i32, i64, b1}) {
    for (const auto& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}}) {
      write_npy(file.string(), random_tensor({dtype, shape}, 1, "x"));
      seeds.add("npy",
                std::string(name_of(dtype)) + "_" + std::to_string(shape.rank()) +
                    (shape.numel() == 0 ? "_empty" : ""),
                read_file(file.string()));
    }
  }
  fs::remove(file);
  std::vector<std::pair<std::string, HostTensor>> tensors;
  for (int i = 0; i < 9; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(name_of(dtype));
    tensors.emplace_back(name, random_tensor({dtype, Shape{2, i}}, 1, name));
    write_safetensors(file.string(), {tensors.back()});
    add_weights(seeds, name, file.string());
  }
  write_safetensors(file.string(), tensors);
  add_weights(seeds, "all", file.string());
  fs::remove(file);
  std::ofstream(seeds.out / "safetensors.dict")
      << "\"\\\"dtype\\\":\"\n\"\\\"shape\\\":\"\n\"\\\"data_offsets\\\":\"\n\"BF16\"\n\"BOOL\"\n"
         "\"I64\"\n\"__metadata__\"\n\"18446744073709551615\"\n";
  std::ofstream(seeds.out / "npy.dict") << "\"descr\"\n\"fortran_order\"\n\"shape\"\n\"True\"\n"
                                           "\"False\"\n\"<f4\"\n\"|b1\"\n\"|u1\"\n\"<i8\"\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const Seeds seeds{argv[1], argv[2]};
  fs::create_directories(seeds.out);
  for (const char* folder : {"examples", "examples/breaks", "tests/errors", "tests/golden"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(seeds.source / folder)) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() == ".toml") {
        const std::string text = read_file(entry.path().string());
        seeds.add("toml", name, text);
        if (std::string_view(folder).starts_with("examples"))
          seeds.add_graph(name, read_toml(text, entry.path().string()).graph->ir());
      } else if (entry.path().extension() == ".bir") {
        seeds.add_graph("golden_" + name, ir::parse(read_file(entry.path().string())));
      }
    }
  }
  for (uint64_t i = 0; i < 64; ++i) {
    test::RandomControlOptions o;
    o.ops = 6;
    o.depth = 2;
    o.lowerings = o.symbolic = i % 2 == 0;
    seeds.add("bir", "control" + std::to_string(i), ir::print(test::random_control(i, o)));
  }
  std::mt19937 random(1);  // scripts of graphs, streams and host calls
  for (uint32_t i = 0; i < 16; ++i) {
    Program program = test::random_program(
        random, {.nodes = 2, .lanes = 3, .runs = 1 + i % 4, .programmatic = true});
    program.modules.push_back({"source", program.target.arch, {}});
    seeds.add_program("script" + std::to_string(i), program);
  }
  seeds.add_document("toml", "frontend/TOML.md");
  seeds.add_document("bir", "ir/README.md");
  fs::copy_file(seeds.out / "bir.dict", seeds.out / "braid.dict",
                fs::copy_options::overwrite_existing);
  arrays(seeds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fuzz_seeds: %s\n", error.what());
  return 1;
}
