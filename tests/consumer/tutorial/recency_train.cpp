// The same training with Learner and Loop: checkpoints, resume, and the best weights by accuracy.
#include "questions.h"
#include "recency.h"

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "runs/recency";
  Rng rng(0);
  Reader model(kTokens, kValues, rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 3e-3});
  training::Learner learner(model, optimizer, {.clip = 1, .ema = 0.98});
  datasets::Loader<Question> questions(
      64 * 100, [](const datasets::BatchPlan& plan) { return ask(64, 24, plan.batch_rng()); },
      {.batch = 64});
  training::Loop loop(
      learner, questions,
      {.loss = [&](const Question& q) { return cross_entropy(model(q.tokens), q.answer); },
       .evaluate =
           [&] {
             Question q = ask(1000, 24, Rng(1));
             Tensor right = eq(argmax(model(q.tokens), 1), q.answer).to(DType::f64);
             return training::Metrics{{"accuracy", mean(right).item<double>()}};
           }},
      {.epochs = 6, .folder = folder, .best = {"accuracy", true}});
  loop.resume();
  if (loop.run() == training::Outcome::interrupted) return training::kExitInterrupted;
  return loop.best_epoch()["accuracy"] > 0.9 ? 0 : 1;
}
