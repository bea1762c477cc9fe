// The end of a storage: its heir takes it over, or it is deleted. The first proposed heir wins.
#include "tern/core/base/storage.h"

namespace tern::detail {

Ref<Heir> Storage::propose_heir(Ref<Heir> proposed) {
  Heir* found = nullptr;
  if (!heir_.compare_exchange_strong(found, proposed.get(), std::memory_order_acq_rel))
    return Ref<Heir>(found);
  proposed->count.fetch_add(1, std::memory_order_relaxed);  // heir_ holds it
  return proposed;
}

Ref<Heir> Storage::take_heir() {
  Ref<Heir> heir(heir_.exchange(nullptr, std::memory_order_acq_rel));
  if (heir) heir->count.fetch_sub(1, std::memory_order_relaxed);  // heir_ held it
  return heir;
}

void dispose(Storage* s) {
  if (const Ref<Heir> heir = s->take_heir())
    heir->inherit(s);
  else
    delete s;
}

bool held_once(const Ref<Storage>& s) {
  const Ref<Heir> heir = s->heir();
  return !s->foreign() && s.use_count() == 1 && (!heir || heir.use_count() == 2);
}

}  // namespace tern::detail
