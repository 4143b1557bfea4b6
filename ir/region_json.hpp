// Regions of a Program, and what belongs to them, as JSON.
#pragma once

#include "ir/json_fields.hpp"
#include "ir/program.hpp"

namespace braid {

Json slots_json(const std::vector<ArgSlot>& slots);
std::vector<ArgSlot> slots_from(const Json& j);
Json steps_json(const std::vector<Step>& steps);
std::vector<Step> steps_from(const Json& j);
Json region_json(const Region& r);
Region region_from(const Json& j);
Json dissolved_json(const Dissolved& d);
Dissolved dissolved_from(const Json& j);
Json message_json(const MessageSource& m);
MessageSource message_from(const Json& j);

}  // namespace braid
