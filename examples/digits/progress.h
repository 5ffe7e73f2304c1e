#pragma once

#include <string>

/// Shows the progress of the training on standard output: a bar that grows in place on a terminal, else a line for each epoch.
class Progress {
 public:
  explicit Progress(int epochs);

  void epoch_done(int epoch, double loss);

 private:
  int epochs_;
  bool terminal_;
};
