#!/usr/bin/env python3
"""Recurrent PPO with masks, in PyTorch, on an environment of Esper: one file to read and to change.

    python3 ppo.py                                       learns the quick start in the env-steps of `esper train`
    python3 ppo.py --task cifar_pointwise --rounds 30    any other task
    python3 ppo.py --rounds 60 --save policy.pt --csv learning.csv

A rollout is one episode of every env, since all envs end together. An action has eight heads: the op is drawn first, under
its mask; the legal slots depend on the op; heads that do not matter to the op are left out of the loss.
"""
import argparse
import csv
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import esper

OP, SLOT = esper.HEAD_NAMES.index("op"), esper.HEAD_NAMES.index("slot")
BLUEPRINT = esper.HEAD_NAMES.index("blueprint")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="quickstart")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=60, help="rollouts, each an episode of every env")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--gae-lambda", type=float, default=0.98)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--target-kl", type=float, default=0.075)
    parser.add_argument("--value-coef", type=float, default=0.5)
    parser.add_argument("--entropy-coef", type=float, default=0.05, help="at the beginning; a tenth of it at the end")
    parser.add_argument("--floor", type=float, default=0.01, help="least probability of a legal choice, while learning")
    parser.add_argument("--evaluate", type=int, default=64, metavar="EPISODES", help="at the end, of `esper eval`")
    parser.add_argument("--save", metavar="FILE", help="the weights")
    parser.add_argument("--csv", metavar="FILE", help="a row per round")
    return parser.parse_args()


# ---- the policy ------------------------------------------------------------------------------------------------------


def layer(inputs, outputs, gain=2 ** 0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Normalizer:
    """Running mean and variance, updated between rollouts, so that all of a rollout is seen alike."""

    def __init__(self, size):
        self.count, self.mean, self.var = 1e-4, torch.zeros(size), torch.ones(size)

    def update(self, rows):
        mean, var, count = rows.mean(0), rows.var(0, unbiased=False), len(rows)
        total, delta = self.count + count, mean - self.mean
        self.var = (self.var * self.count + var * count + delta ** 2 * self.count * count / total) / total
        self.mean, self.count = self.mean + delta * count / total, total

    def __call__(self, x):
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)


class Agent(nn.Module):
    def __init__(self, env, hidden, floor):
        super().__init__()
        self.sizes, self.floor = env.head_sizes, floor
        self.uses = torch.tensor(esper.OP_USES_HEAD)
        self.kinds = nn.Embedding(len(env.blueprints) + 1, 4)  # what grows in a slot, or nothing
        inputs = env.features + 4 * len(env.slots)
        self.features = nn.Sequential(layer(inputs, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.memory = nn.LSTM(hidden, hidden)
        for name, weights in self.memory.named_parameters():
            nn.init.zeros_(weights) if "bias" in name else nn.init.orthogonal_(weights)
        self.norm = nn.LayerNorm(hidden)
        self.heads = nn.ModuleList(nn.Sequential(layer(hidden, hidden // 2), nn.ReLU(), layer(hidden // 2, size, 0.01))
                                   for size in self.sizes)
        self.critic = nn.Sequential(layer(hidden, hidden // 2), nn.ReLU(), layer(hidden // 2, 1, 0.1))
        # Seeds that are pruned at once teach nothing: begin with planting and committing.
        prior = {"germinate": 1.0, "fossilize": 1.0, "prune": -3.0, "set_alpha_target": -3.0}
        with torch.no_grad():
            for op, logit in prior.items():
                self.heads[OP][-1].bias[esper.OP_NAMES.index(op)] = logit

    def forward(self, seen, grown, state):
        """seen [steps][envs][features], grown [steps][envs][slots]; logits of all heads and values of the states."""
        features = self.features(torch.cat((seen, self.kinds(grown.long() + 1).flatten(-2)), -1))
        remembered, state = self.memory(features, state)
        hidden = self.norm(features + remembered)
        return [head(hidden) for head in self.heads], self.critic(hidden).squeeze(-1), state

    def probabilities(self, logits, mask):
        """Of the legal choices, none of them below the floor. Where nothing is legal the head does not matter."""
        mask = mask.bool() | ~mask.any(-1, keepdim=True)
        share = F.softmax(logits.masked_fill(~mask, -1e9), -1)
        legal = mask.sum(-1, keepdim=True)
        floor = torch.minimum(torch.tensor(self.floor), 0.5 / legal)
        return torch.where(mask, floor + (1 - legal * floor) * share, torch.zeros(()))

    def head_masks(self, masks, slot_by_op, ops):
        """The masks of the heads, given the ops: the legal slots are those of the op."""
        split = list(masks.split(self.sizes, -1))
        at = ops[..., None, None].expand(*ops.shape, 1, slot_by_op.shape[-1])
        split[SLOT] = slot_by_op.gather(-2, at).squeeze(-2)
        return split

    def act(self, logits, masks, slot_by_op):
        """Draws: the op first, then the others under the masks that it leaves."""
        op_mask = masks.split(self.sizes, -1)[OP]
        ops = torch.distributions.Categorical(self.probabilities(logits[OP], op_mask)).sample()
        heads = self.head_masks(masks, slot_by_op, ops)
        drawn = [torch.distributions.Categorical(self.probabilities(scores, mask)).sample() if head != OP else ops
                 for head, (scores, mask) in enumerate(zip(logits, heads))]
        actions = torch.stack(drawn, -1)
        return torch.where(self.uses[ops], actions, torch.zeros_like(actions))

    def rate(self, logits, masks, slot_by_op, actions):
        """Log-probabilities and entropies by head [...][heads], and which of them were decisions."""
        ops = actions[..., OP]
        heads = self.head_masks(masks, slot_by_op, ops)
        rated = [self.probabilities(scores, mask) for scores, mask in zip(logits, heads)]
        taken = [p.gather(-1, actions[..., head, None]).squeeze(-1) for head, p in enumerate(rated)]
        entropy = [-(p * (p + 1e-12).log()).sum(-1) / mask.sum(-1).clamp(min=2).float().log()
                   for p, mask in zip(rated, heads)]
        choice = torch.stack([mask.sum(-1) > 1 for mask in heads], -1)
        return torch.stack(taken, -1).clamp(min=1e-9).log(), torch.stack(entropy, -1), self.uses[ops] & choice


# ---- learning --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def rollout(env, agent, normalize, first=None):
    """An episode of every env: tensors [steps][envs]..."""
    seen, info = env.reset() if first is None else first
    state, rows, done = None, [], False
    while not done:
        x, grown = torch.as_tensor(seen), torch.as_tensor(info["blueprints"])
        masks, slots = torch.as_tensor(info["action_mask"]), torch.as_tensor(info["slot_by_op"])
        logits, values, state = agent(normalize(x)[None], grown[None], state)
        actions = agent.act([scores[0] for scores in logits], masks, slots)
        seen, rewards, terminated, _, info = env.step(actions.numpy())
        done = terminated.all()
        # A seed that wrecked its host was rolled back: what the policy remembers of that is void, too.
        if state is not None and (rolled := info["result"] == esper.RESULT_NAMES.index("rolled_back")).any():
            keep = torch.as_tensor(~rolled).float()[None, :, None]
            state = (state[0] * keep, state[1] * keep)
        rows.append((x, grown, masks, slots, actions, values[0], torch.as_tensor(rewards.astype(np.float32))))
    return [torch.stack(column) for column in zip(*rows)]


def advantages(rewards, values, gamma, gae_lambda):
    """The end of an episode is its end: nothing is bootstrapped."""
    result, following, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0]), torch.zeros_like(rewards[0])
    for step in reversed(range(len(rewards))):
        last = rewards[step] + gamma * following - values[step] + gamma * gae_lambda * last
        result[step], following = last, values[step]
    return result


def mean_by_head(x, counts):
    """Means over the decisions of each head, summed over heads."""
    return ((x * counts).sum((0, 1)) / counts.sum((0, 1)).clamp(min=1)).sum()


def update(agent, optimizer, normalize, scale, data, args, progress):
    seen, grown, masks, slots, actions, values, rewards = data
    scale["rewards"].append(rewards.flatten())
    spread = torch.cat(scale["rewards"]).std().clamp(min=1e-3)
    shift, width = scale["returns"]
    values = values * width + shift  # the critic predicts in units of its targets
    gain = advantages(rewards / spread, values, args.gamma, args.gae_lambda)
    returns = gain + values
    scale["returns"] = shift, width = returns.mean(), returns.std().clamp(min=0.1)
    targets = (returns - shift) / width
    x = normalize(seen)
    entropy_coef = args.entropy_coef * (1 - 0.9 * progress)
    weights = torch.ones(len(agent.sizes))
    weights[BLUEPRINT] = 10  # which one is worth planting shows late: keep trying

    before = None
    for epoch in range(args.epochs):
        logits, predicted, _ = agent(x, grown, None)
        log_probs, entropy, counts = agent.rate(logits, masks, slots, actions)
        if before is None:
            before, chosen = log_probs.detach(), counts.any(-1)
            gain = (gain - gain[chosen].mean()) / gain[chosen].std().clamp(min=0.1)
        log_ratio = (log_probs - before) * counts
        kl = ((log_ratio.exp() - 1 - log_ratio).sum(-1)[chosen]).mean()
        if epoch and kl > args.target_kl:
            break
        ratio, a = log_ratio.exp(), gain[..., None]
        policy_loss = -mean_by_head(torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a), counts)
        value_loss = 0.5 * (predicted - targets).pow(2).mean()
        bonus = mean_by_head(entropy * weights, counts)
        loss = policy_loss + args.value_coef * value_loss - entropy_coef * bonus
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 5.0)
        optimizer.step()
    normalize.update(seen.flatten(0, 1))
    return {"kl": kl.item(), "epochs": epoch + (kl <= args.target_kl).item(), "value_loss": value_loss.item()}


def evaluate(agent, normalize, args):
    """Episodes that training never sees: those of `esper eval` on a run with this seed."""
    env = esper.VectorEnv(args.task, args.num_envs, seed=args.seed, settings={"evaluate": True}, autoreset_mode="Disabled")
    floor, agent.floor = agent.floor, 0.0
    scores = []
    for _ in range(-(-args.evaluate // args.num_envs)):
        rollout(env, agent, normalize)
        scores.append(env.outcomes["test_score"].copy())
    agent.floor = floor
    env.close()
    return np.concatenate(scores)


def main():
    args = parse()
    torch.manual_seed(args.seed)
    env = esper.VectorEnv(args.task, args.num_envs, seed=args.seed, autoreset_mode="Disabled")
    agent = Agent(env, args.hidden, args.floor)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    normalize, scale = Normalizer(env.features), {"rewards": [], "returns": (torch.zeros(()), torch.ones(()))}
    table, start = [], time.time()
    first = env.reset()
    normalize.update(torch.as_tensor(first[0]))
    for number in range(1, args.rounds + 1):
        data = rollout(env, agent, normalize, first)
        first = None
        told = update(agent, optimizer, normalize, scale, data, args, (number - 1) / max(args.rounds - 1, 1))
        ended = env.outcomes
        table.append({"round": number, "env_steps": number * env.num_envs * env.steps, "reward": ended["reward"].mean(),
                      "test_score": ended["test_score"].mean(), "fossilized": ended["fossilized"].mean(), **told})
        print(f"round {number}: reward {table[-1]['reward']:.2f}, test {table[-1]['test_score']:.1f}, fossils "
              f"{table[-1]['fossilized']:.1f}, kl {told['kl']:.3f} after {told['epochs']:.0f} epochs, "
              f"{table[-1]['env_steps'] / (time.time() - start):.0f} env-steps/s", flush=True)
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)
    if args.save:
        torch.save({"agent": agent.state_dict(), "mean": normalize.mean, "var": normalize.var}, args.save)
    if args.evaluate:
        scores = evaluate(agent, normalize, args)
        print(f"evaluation: test score {scores.mean():.2f} over {len(scores)} episodes "
              f"(standard error {scores.std() / len(scores) ** 0.5:.2f})")


if __name__ == "__main__":
    main()
