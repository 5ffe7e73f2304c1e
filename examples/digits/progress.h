#pragma once

#include <string>

/// Tells on standard output how far the training is: a bar that grows in place on a terminal, a line an epoch elsewhere.
class Progress {
 public:
  explicit Progress(int epochs);

  void epoch_done(int epoch, double loss);

 private:
  int epochs_;
  bool terminal_;
};
