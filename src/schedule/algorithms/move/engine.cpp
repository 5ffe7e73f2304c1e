// The engine carries out the whole collective.
#include "schedule/algorithm.h"

namespace unisono::schedule::algorithms {

bool can_engine(const Problem& problem, const Setting& setting) { return setting.engine.offers(problem); }
void build_engine(const Problem& problem, const Setting&, Builder& to) { to.engine(problem); }

}  // namespace unisono::schedule::algorithms
