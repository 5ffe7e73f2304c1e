// The wrong calls of a controller, for refused.cpp.
#if CASE == 145
void call(const Controller& workers) {
  const int captured = 3;
  static_cast<void>(workers.call([captured](int a) { return a + captured; }, 1));
}
#elif CASE == 146
struct NoObject {
  int* pointer;
};
void takes_no_object(const NoObject&) {}
UNISONO_REMOTE(takes_no_object);
#elif CASE == 147
void writes_to_its_argument(int& a) { a = 1; }
UNISONO_REMOTE(writes_to_its_argument);
#elif CASE == 148
const int& returns_a_reference() { return constant_number; }
UNISONO_REMOTE(returns_a_reference);
#elif CASE == 149
int takes_two(int a, int b) { return a + b; }
void call(const Controller& workers) { static_cast<void>(workers.call(takes_two, 1)); }
#elif CASE == 150
struct Actor {
  void step() {}
};
void call(const Controller& workers) { static_cast<void>(workers.call(&Actor::step)); }
#elif CASE == 151
struct Actor {
  explicit Actor(int) {}
};
void call(const Controller& workers) { static_cast<void>(workers.make<Actor>(std::string("three"))); }
#endif
