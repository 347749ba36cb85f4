"""Twenty training loops of two or more networks, each with an optimizer's step too early and in its place.

``EARLY`` stands where the step comes before a backward that still needs the parameters, ``LATE`` where it
belongs; of the two one is the step and the other is left out.
"""

from __future__ import annotations

from textwrap import dedent

NETS = """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x):
        return self.body(x)


"""

LOOPS: dict[str, tuple[str, str]] = {
    "gan": ("opt_d.step()", """
        G, D = Net(3, 4), Net(4, 1)
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for _ in range(2):
            real, fake = torch.randn(5, 4), G(torch.randn(5, 3))
            d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
            g_loss = F.softplus(-D(fake)).mean()
            opt_d.zero_grad()
            d_loss.backward()
            EARLY
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
            LATE
        """),
    "wasserstein gan": ("critic_opt.step()", """
        gen, critic = Net(3, 4), Net(4, 1)
        gen_opt = torch.optim.RMSprop(gen.parameters(), lr=1e-3)
        critic_opt = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
        fake = gen(torch.randn(6, 3))
        critic_loss = critic(fake.detach()).mean() - critic(torch.randn(6, 4)).mean()
        gen_loss = -critic(fake).mean()
        critic_loss.backward()
        EARLY
        gen_loss.backward()
        gen_opt.step()
        LATE
        """),
    "gan in functions": ("opt.step()", """
        def d_loss_of(d, real, fake):
            return F.relu(1 - d(real)).mean() + F.relu(1 + d(fake)).mean()

        gen, disc = Net(3, 4), Net(4, 1)
        opt = torch.optim.SGD(disc.parameters(), lr=0.1)
        gen_opt = torch.optim.SGD(gen.parameters(), lr=0.1)
        fake = gen(torch.randn(5, 3))
        adversarial = -disc(fake).mean()
        loss = d_loss_of(disc, torch.randn(5, 4), fake.detach())
        loss.backward()
        EARLY
        adversarial.backward()
        gen_opt.step()
        LATE
        """),
    "gan trainer": ("self.opt_d.step()", """
        class Trainer:
            def __init__(self):
                self.g, self.d = Net(3, 4), Net(4, 1)
                self.opt_g = torch.optim.Adam(self.g.parameters())
                self.opt_d = torch.optim.Adam(self.d.parameters())

            def step(self, real):
                fake = self.g(torch.randn(len(real), 3))
                loss_d = self.d(fake.detach()).mean() - self.d(real).mean()
                loss_g = -self.d(fake).mean()
                self.opt_d.zero_grad()
                loss_d.backward()
                EARLY
                self.opt_g.zero_grad()
                loss_g.backward()
                self.opt_g.step()
                LATE

        Trainer().step(torch.randn(5, 4))
        """),
    "conditional gan": ("opt_d.step()", """
        G, D = Net(5, 4), Net(6, 1)
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        y = F.one_hot(torch.randint(0, 2, (5,)), 2).float()
        fake = G(torch.cat([torch.randn(5, 3), y], dim=1))
        scores = D(torch.cat([fake, y], dim=1))
        loss_g = F.binary_cross_entropy_with_logits(scores, torch.ones(5, 1))
        again = D(torch.cat([fake.detach(), y], dim=1))
        loss_d = F.binary_cross_entropy_with_logits(again, torch.zeros(5, 1))
        loss_d.backward()
        EARLY
        loss_g.backward()
        opt_g.step()
        LATE
        """),
    "least squares gan": ("d_opt.step()", """
        g, d = Net(3, 4), Net(4, 1)
        g_opt, d_opt = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
        mse = nn.MSELoss()
        for real in torch.randn(2, 5, 4):
            fake = g(torch.randn(5, 3))
            g_loss = mse(d(fake), torch.ones(5, 1))
            d_loss = mse(d(real), torch.ones(5, 1)) + mse(d(fake.detach()), torch.zeros(5, 1))
            d_opt.zero_grad()
            d_loss.backward()
            EARLY
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            LATE
        """),
    "two generators": ("opt_a.step()", """
        ab, ba = Net(4, 4), Net(4, 4)
        opt_a, opt_b = torch.optim.Adam(ab.parameters()), torch.optim.Adam(ba.parameters())
        a, b = torch.randn(5, 4), torch.randn(5, 4)
        cycle_a = F.l1_loss(ba(ab(a)), a)
        cycle_b = F.l1_loss(ab(ba(b)), b)
        cycle_a.backward()
        EARLY
        cycle_b.backward()
        opt_b.step()
        LATE
        """),
    "autoencoder with a critic": ("code_opt.step()", """
        encoder, decoder, critic = Net(4, 2), Net(2, 4), Net(2, 1)
        code_opt = torch.optim.Adam(critic.parameters())
        ae_opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
        x = torch.randn(5, 4)
        z = encoder(x)
        rec = F.mse_loss(decoder(z), x) - critic(z).mean()
        adv = critic(z.detach()).mean() - critic(torch.randn(5, 2)).mean()
        adv.backward()
        EARLY
        rec.backward()
        ae_opt.step()
        LATE
        """),
    "feature matching": ("opt_d.step()", """
        G, D, head = Net(3, 4), Net(4, 6), nn.Linear(6, 1)
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam([*D.parameters(), *head.parameters()])
        real, fake = torch.randn(5, 4), G(torch.randn(5, 3))
        match = (D(real).detach().mean(0) - D(fake).mean(0)).pow(2).sum()
        loss_d = head(D(fake.detach())).mean() - head(D(real)).mean()
        loss_d.backward()
        EARLY
        match.backward()
        opt_g.step()
        LATE
        """),
    "domain adaptation": ("opt_dom.step()", """
        features, classes, domain = Net(4, 3), Net(3, 2), Net(3, 1)
        opt_dom = torch.optim.SGD(domain.parameters(), lr=0.1)
        opt = torch.optim.SGD([*features.parameters(), *classes.parameters()], lr=0.1)
        x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
        h = features(x)
        confusion = F.softplus(domain(h)).mean()
        task = F.cross_entropy(classes(h), y) + confusion
        dom_loss = F.softplus(-domain(h.detach())).mean()
        dom_loss.backward()
        EARLY
        task.backward()
        opt.step()
        LATE
        """),
    "ddpg": ("critic_opt.step()", """
        actor, critic = Net(3, 2), Net(5, 1)
        actor_opt, critic_opt = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
        s, a, r = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1)
        critic_loss = F.mse_loss(critic(torch.cat([s, a], 1)), r)
        actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
        critic_opt.zero_grad()
        critic_loss.backward()
        EARLY
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        LATE
        """),
    "actor and critic on one trunk": ("critic_opt.step()", """
        trunk, pi, v = Net(3, 6), nn.Linear(6, 2), nn.Linear(6, 1)
        critic_opt = torch.optim.Adam([*trunk.parameters(), *v.parameters()])
        actor_opt = torch.optim.Adam([*trunk.parameters(), *pi.parameters()])
        s, returns = torch.randn(6, 3), torch.randn(6, 1)
        h = trunk(s)
        value_loss = (v(h) - returns).pow(2).mean()
        logp = pi(h).log_softmax(-1)[:, 0]
        policy_loss = -(logp * (returns - v(h).detach()).squeeze(1)).mean()
        value_loss.backward(retain_graph=True)
        EARLY
        policy_loss.backward()
        actor_opt.step()
        LATE
        """),
    "sac": ("self.q_opt.step()", """
        class Agent:
            def __init__(self):
                self.q, self.pi = Net(5, 1), Net(3, 2)
                self.q_opt = torch.optim.Adam(self.q.parameters())
                self.pi_opt = torch.optim.Adam(self.pi.parameters())
                self.alpha = 0.2

            def update(self, s, a, r):
                noise = torch.randn(len(s), 2)
                action = torch.tanh(self.pi(s) + noise)
                value = self.q(torch.cat([s, action], 1))
                pi_loss = (self.alpha * action.pow(2).sum(1, keepdim=True) - value).mean()
                q_loss = F.mse_loss(self.q(torch.cat([s, a], 1)), r)
                self.q_opt.zero_grad()
                q_loss.backward()
                EARLY
                self.pi_opt.zero_grad()
                pi_loss.backward()
                self.pi_opt.step()
                LATE

        Agent().update(torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1))
        """),
    "td3": ("q_opt.step()", """
        q1, q2, policy = Net(5, 1), Net(5, 1), Net(3, 2)
        q_opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()])
        policy_opt = torch.optim.Adam(policy.parameters())
        s, a, y = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 1)
        sa = torch.cat([s, a], 1)
        q_loss = F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y)
        p_loss = -q1(torch.cat([s, policy(s)], 1)).mean()
        q_loss.backward()
        EARLY
        p_loss.backward()
        policy_opt.step()
        LATE
        """),
    "world model": ("model_opt.step()", """
        model, policy = Net(5, 3), Net(3, 2)
        model_opt, policy_opt = torch.optim.Adam(model.parameters()), torch.optim.Adam(policy.parameters())
        s, a, after = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 3)
        fit = F.mse_loss(model(torch.cat([s, a], 1)), after)
        imagined = s
        for _ in range(2):
            imagined = model(torch.cat([imagined, policy(imagined)], 1))
        plan = imagined.pow(2).mean()
        fit.backward()
        EARLY
        plan.backward()
        policy_opt.step()
        LATE
        """),
    "two agents": ("opt_1.step()", """
        one, two = Net(4, 2), Net(4, 2)
        opt_1, opt_2 = torch.optim.SGD(one.parameters(), lr=0.1), torch.optim.SGD(two.parameters(), lr=0.1)
        obs, payoff = torch.randn(6, 4), torch.randn(2, 2)
        joint = one(obs).softmax(-1) @ payoff * two(obs).softmax(-1)
        gain = joint.sum(1).mean()
        loss_1 = -gain
        loss_2 = gain + 0.1 * one(obs).pow(2).mean()
        loss_1.backward(retain_graph=True)
        EARLY
        loss_2.backward()
        opt_2.step()
        LATE
        """),
    "learned reward": ("reward_opt.step()", """
        reward, policy = Net(5, 1), Net(3, 2)
        reward_opt = torch.optim.Adam(reward.parameters())
        policy_opt = torch.optim.Adam(policy.parameters())
        for _ in range(2):
            s, expert = torch.randn(6, 3), torch.randn(6, 2)
            mine = policy(s)
            policy_loss = -reward(torch.cat([s, mine], 1)).mean()
            seen = reward(torch.cat([s, mine.detach()], 1)).mean()
            reward_loss = seen - reward(torch.cat([s, expert], 1)).mean()
            reward_opt.zero_grad()
            reward_loss.backward()
            EARLY
            policy_opt.zero_grad()
            policy_loss.backward()
            policy_opt.step()
            LATE
        """),
    "distillation": ("teacher_opt.step()", """
        teacher, student = Net(4, 3), Net(4, 3)
        teacher_opt = torch.optim.SGD(teacher.parameters(), lr=0.1)
        student_opt = torch.optim.SGD(student.parameters(), lr=0.1)
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        t = teacher(x)
        together = F.mse_loss(student(x), t)
        alone = F.cross_entropy(t, y)
        alone.backward(retain_graph=True)
        EARLY
        together.backward()
        student_opt.step()
        LATE
        """),
    "curiosity": ("forward_opt.step()", """
        embed, forward_model, policy = Net(4, 3), Net(5, 3), Net(3, 2)
        forward_opt = torch.optim.Adam(forward_model.parameters())
        policy_opt = torch.optim.Adam([*policy.parameters(), *embed.parameters()])
        s, after = torch.randn(6, 4), torch.randn(6, 4)
        z = embed(s)
        a = policy(z)
        bonus = (forward_model(torch.cat([z, a], 1)) - embed(after)).pow(2).mean()
        fit = (forward_model(torch.cat([z.detach(), a.detach()], 1)) - embed(after).detach()).pow(2).mean()
        fit.backward()
        EARLY
        (-bonus).backward()
        policy_opt.step()
        LATE
        """),
    "value and policy in a dictionary": ("opts['v'].step()", """
        v, pi = Net(3, 1), Net(3, 2)
        opts = {"v": torch.optim.Adam(v.parameters()), "pi": torch.optim.Adam(pi.parameters())}
        s, r = torch.randn(6, 3), torch.randn(6, 1)
        advantage = r - v(s)
        policy_loss = -(pi(s).log_softmax(-1)[:, :1] * advantage).mean()
        value_loss = (r - v(s)).pow(2).mean()
        value_loss.backward()
        EARLY
        policy_loss.backward()
        opts["pi"].step()
        LATE
        """),
    "a scaler's step": ("scaler.step(opt_d)", """
        def train(G, D, opt_g, opt_d, scaler, real):
            fake = G(torch.randn(5, 3))
            d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
            g_loss = F.softplus(-D(fake)).mean()
            scaler.scale(d_loss).backward()
            EARLY
            scaler.scale(g_loss).backward()
            scaler.step(opt_g)
            LATE

        G, D = Net(3, 4), Net(4, 1)
        opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        train(G, D, opt_g, opt_d, torch.amp.GradScaler("cpu", enabled=False), torch.randn(5, 4))
        """),
    "an accelerator's backward": ("opt_d.step()", """
        class Trainer:
            def __init__(self, accelerator):
                self.accelerator, self.G, self.D = accelerator, Net(3, 4), Net(4, 1)
            def train(self, real):
                opt_g, opt_d = torch.optim.Adam(self.G.parameters()), torch.optim.Adam(self.D.parameters())
                fake = self.G(torch.randn(5, 3))
                d_loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake.detach())).mean()
                g_loss = F.softplus(-self.D(fake)).mean()
                self.accelerator.backward(d_loss)
                EARLY
                self.accelerator.backward(g_loss)
                opt_g.step()
                LATE

        import types
        Trainer(types.SimpleNamespace(backward=torch.Tensor.backward)).train(torch.randn(5, 4))
        """),
}  # fmt: skip


def early(name: str) -> str:
    """The loop that torch refuses."""
    step, body = LOOPS[name]
    return NETS + dedent(body).replace("EARLY", step).replace("LATE", "pass")


def late(name: str) -> str:
    """The loop as it should be."""
    step, body = LOOPS[name]
    return NETS + dedent(body).replace("EARLY", "pass").replace("LATE", step)


def line_of_step(name: str) -> int:
    """Where the early step stands."""
    lines = (NETS + dedent(LOOPS[name][1])).split("\n")
    return next(number for number, line in enumerate(lines, 1) if "EARLY" in line)
