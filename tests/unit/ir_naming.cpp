// Names of parts, and repeated scopes folded.
#include <doctest/doctest.h>

#include "ir/naming.hpp"

using namespace braid;

TEST_CASE("naming: an op's label without its kind") {
  CHECK(op_name("h (add)") == "h");
  CHECK(op_name("l1/dot") == "l1/dot");
  CHECK(op_name("a (b) (add)") == "a (b)");
}

TEST_CASE("naming: copies of repeats, at every depth, by whole components") {
  const Repeats r({{"block", 12}, {"block3/head", 4}, {"v1", 3}, {"once", 1}});
  const auto copy = r.outermost("block3/head2/q (dot)");
  REQUIRE(copy.has_value());
  CHECK(copy->prefix == "block");
  CHECK(copy->copy == 3);
  CHECK(copy->end == 6);
  CHECK(r.folded("block3/head2/q (dot)") == "block*/head*/q (dot)");
  CHECK(r.folded("block4/head2/q") == "block*/head2/q");  // no repeat there
  CHECK(r.folded("block12/q") == "block12/q");            // there are 12: 0 to 11
  CHECK(r.folded("block03/q") == "block03/q");
  CHECK(r.folded("myblock3/q") == "myblock3/q");
  CHECK(r.folded("block3") == "block*");
  CHECK(r.folded("v12/w") == "v1*/w");  // copy 2 of "v1"
  CHECK(r.folded("once0/w") == "once0/w");
  CHECK(!r.outermost("block/q").has_value());
  CHECK(r.relative("block4/y (add)", 3) == "block*+1/y (add)");
  CHECK(r.relative("block3/y (add)", 3) == "block*/y (add)");
  CHECK(r.relative("z", 3) == "z");
}

TEST_CASE("naming: scopes in their order, copies folded") {
  const Repeats r({{"block", 12}, {"enc/layer", 3}});
  CHECK(r.scopes({"embed/gather", "embed (add)", "block0/q (dot)", "block1/q (dot)",
                  "block0/k (dot)", "loss (mul)"}) ==
        std::vector<std::string>{"embed", "block0 .. block1 (2x)", "loss"});
  CHECK(r.scopes({"block4/q", "block7/q"}) ==
        std::vector<std::string>{"block4 .. block7 (2 of them)"});
  CHECK(r.scopes({"block4/q"}) == std::vector<std::string>{"block4"});
  CHECK(r.scopes({"enc/layer2/q", "enc/layer0/q", "enc/layer1/q"}) ==
        std::vector<std::string>{"enc/layer0 .. enc/layer2 (3x)"});
  CHECK(r.scopes({}).empty());
}

TEST_CASE("naming: sizes and counts for people") {
  CHECK(human_bytes(10239) == "10239 B");
  CHECK(human_bytes(10240) == "10.0 KiB");
  CHECK(human_bytes(int64_t{40} << 20) == "40.0 MiB");
  CHECK(human_count(9999) == "9999 ");
  CHECK(human_count(12345678) == "12.3 M");
  CHECK(counted(1, "edge") == "1 edge");
  CHECK(counted(0, "edge") == "0 edges");
  TextTable t;
  t.row({"a", "bb", "last"});
  t.row({"aaa", "", ""});
  CHECK(t.str() == "  a    bb  last\n  aaa\n");
}
