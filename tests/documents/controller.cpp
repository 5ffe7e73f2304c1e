// The blocks of docs/guide/controller.md, one after the other, as they stand there.
#include "controller.h"

double sum_of_file(const std::string& name) { return static_cast<double>(name.size()); }
void Trainer::step(int number) { loss_ -= unisono::all_reduce(rate_, unisono::ReduceOp::avg) * (number % 2); }
int sum_with_controller(int own) { return unisono::all_reduce(own, unisono::ReduceOp::sum, unisono::Controller::everyone()); }

UNISONO_REMOTE(sum_of_file);
UNISONO_REMOTE(sum_with_controller);
UNISONO_ACTOR(Trainer, &Trainer::step, &Trainer::loss);

int main() {
  unisono::Controller workers({.workers = 3});
  auto trainer = workers.make<Trainer>(0.01);
  run_fragments(workers, trainer);
}
