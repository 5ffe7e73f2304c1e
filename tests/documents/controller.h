#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "unisono/unisono.h"

// The program around the blocks of docs/guide/controller.md: what it calls on its workers, and its controller.

double sum_of_file(const std::string& name);

class Trainer {
 public:
  explicit Trainer(double rate) : rate_(rate) {}
  void step(int number);
  double loss() const { return loss_; }

 private:
  double rate_, loss_ = 1;
};

int sum_with_controller(int own);

#define FRAGMENTS_BEGIN(name) void name([[maybe_unused]] unisono::Controller& workers, [[maybe_unused]] unisono::Handles<Trainer>& trainer) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments(unisono::Controller& workers, unisono::Handles<Trainer>& trainer);
