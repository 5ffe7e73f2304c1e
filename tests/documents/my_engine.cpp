// The reader's engine of docs/guide/write-a-backend.md, which lies beside the examples there: that of the example, under the name that the document
// gives it.
#include <unisono/engine.h>

#pragma push_macro("UNISONO_PLUGIN")
#undef UNISONO_PLUGIN
#define UNISONO_PLUGIN static const unisono::Plugin* example()
#include "../examples/plugin/store_engine.cpp"
#pragma pop_macro("UNISONO_PLUGIN")

UNISONO_PLUGIN {
  static const unisono::Plugin plugin = [] {
    unisono::Plugin mine = *example();
    mine.name = "mine";
    return mine;
  }();
  return &plugin;
}
