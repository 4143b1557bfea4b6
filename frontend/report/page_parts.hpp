// The files of frontend/report/page/ as text. cmake/embed.cmake writes their definitions, so that
// the tool stays one file.
#pragma once

#include <array>
#include <string_view>

namespace braid::page_parts {

extern const std::string_view kHtml;   // page.html, with a mark {{...}} for each part
extern const std::string_view kStyle;  // page.css
/// The scripts, one module when joined in this order.
extern const std::array<std::string_view, 11> kScripts;

}  // namespace braid::page_parts
