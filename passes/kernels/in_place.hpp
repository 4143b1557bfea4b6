// Which outputs of a row kernel may have the bytes of one of its inputs.
#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "ir/program.hpp"

namespace braid::kernels {

/// Pairs of an input and an output, as slots in the order of Family::emit, sorted. In each pair the
/// two have as many elements of the same size, and an element of the input is read by the one
/// thread that writes that element of the output, before it writes it.
///
/// This is read off the body, by what row_map.cpp and row_reduce.cpp do: all loads of an element
/// come before its stores, and a thread stands at one row-major index in all values that have as
/// many elements as the domain, as long as no computed value is transposed. So it holds for inputs
/// that lead to every result and every reduction through maps and reshapes alone, where all
/// reductions fold the last axes. Pointers that may be one keep the compiler from loading the next
/// element before a store; so that this costs nothing, only inputs count that are in registers
/// before the first store: all of them without reductions, else those that are reduced, in rows
/// that a thread keeps. Linear in the body.
std::vector<InPlace> in_place_slots(const ir::Graph& body, const Target& target);

}  // namespace braid::kernels
