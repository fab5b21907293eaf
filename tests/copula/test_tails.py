"""Rows with a scale of their own: Student's t in place of the normal law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, sparse, stats

from colspace import CopulaImputer
from colspace.copula import _full, _heavy, _left_out, _predict
from colspace.copula._encode import known_rows
from colspace.copula._estep import Factors, Posterior, pack
from colspace.copula._gibbs import Parameters, heavier
from colspace.copula._heavy import best_tails, by_ranks, row_likelihoods, wild, with_tails, without_tails
from colspace.copula._left_out import left_out, with_lean
from colspace.copula._predict import draws, explained, gaps, interval_ends
from colspace.copula._row_laws import joint_laws, latent_variance, row_distances, tailed_laws
from colspace.copula._score import log_density as value_density
from colspace.copula._tails import StudentLaw, log_density, log_steepness, normal_scores, student_scores


def heavy_table(n, p, k, df, seed, *, gone=0.3):
    """Rows of k factors times scales of ``df`` degrees of freedom, t marginals; and with gaps."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(0.7 / (W**2).sum(axis=1))[:, None]
    X = rng.standard_normal((n, k)) @ W.T + np.sqrt(0.3) * rng.standard_normal((n, p))
    if np.isfinite(df):
        X /= np.sqrt(rng.chisquare(df, n) / df)[:, None]
    holes = X.copy()
    holes[rng.random(X.shape) < gone] = np.nan
    return X, holes


def absolute_error(model, X, holes):
    gone = np.isnan(holes)
    off, none = np.abs(model.transform(holes) - X), np.abs(np.nanmedian(holes, axis=0) - X)
    return float(np.mean([off[g, j].sum() / none[g, j].sum() for j, g in enumerate(gone.T)]))


def wild_rows(holes):
    size = np.nanmean(np.abs(holes), axis=1)
    return size > np.nanquantile(size, 0.9)


def cover(model, X, holes):
    """Share of gaps in 95 % intervals: of all rows, and of the wildest tenth."""
    lower, upper = model.interval(holes)
    inside, gone, wild = (lower <= X) & (upper >= X), np.isnan(holes), wild_rows(holes)
    return inside[gone].mean(), inside[wild][gone[wild]].mean()


@pytest.fixture(scope="module")
def heavy():
    X, holes = heavy_table(600, 10, 2, 3.0, 0)
    return X, holes, CopulaImputer(random_state=0).fit(holes)


@pytest.fixture(scope="module", params=["factors", "full"])
def known_model(request):
    """A fitted model of three columns whose loadings are taken for certain, with tails of 3 degrees of freedom."""
    X, _ = heavy_table(300, 3, 1, 3.0, 1)
    fitted = CopulaImputer(1, correlation=request.param, tails=3.0, nonlinear=False, random_state=0).fit(X)
    model = fitted._point
    assert (model.joint is None) == (request.param == "factors")
    f = model.factors
    model = replace(model, wider=None)
    if model.joint is None:
        W = np.array([[0.9], [-0.7], [0.6]])
        sure = type(f)(W, np.zeros((3, 1, 1)), 1.0 - (W**2).ravel())
        model = replace(model, state=replace(model.state, factors=sure))
        R = W @ W.T + np.diag(sure.noise)
    else:
        R = model.joint
    return X, model, R


class TestScales:
    def test_scores_are_quantiles(self):
        z = np.linspace(-6, 6, 25)
        for df in (1.0, 1.5, 3.0, 20.0):
            np.testing.assert_allclose(
                student_scores(z[z <= 0], df), stats.t.ppf(stats.norm.cdf(z[z <= 0]), df), rtol=1e-9
            )
            np.testing.assert_allclose(student_scores(-z, df), -student_scores(z, df))
            np.testing.assert_allclose(normal_scores(student_scores(z, df), df), z, atol=1e-8)
            np.testing.assert_allclose(normal_scores(np.array([np.inf, -np.inf]), df), [20.0, -20.0])

    def test_slope_by_differences(self):
        z, step = np.linspace(-3, 3, 13), 1e-5
        slope = (student_scores(z + step, 2.5) - student_scores(z - step, 2.5)) / (2 * step)
        np.testing.assert_allclose(np.exp(log_steepness(student_scores(z, 2.5), 2.5)), slope, rtol=1e-6)

    def test_law_is_scipys(self):
        df = np.array([1.5, 3.0, 3.0, 12.0])
        law, at = StudentLaw(df), np.array([-4.0, -0.3, 0.5, 2.0])
        np.testing.assert_allclose(law.below(at), stats.t.cdf(at, df))
        np.testing.assert_allclose(law.log_density(at), stats.t.logpdf(at, df))
        np.testing.assert_allclose(log_density(at, 3.0), stats.t.logpdf(at, 3.0))
        np.testing.assert_allclose(log_density(at, 1e15), stats.norm.logpdf(at))
        np.testing.assert_allclose(law.quantile([0.1, 0.975]), stats.t.ppf([[0.1], [0.975]], df))
        np.testing.assert_allclose(law.variance[1:], stats.t.var(df[1:]))
        assert np.isinf(law.variance[0])
        np.testing.assert_array_equal(law.some([3, 0]).df, [12.0, 1.5])
        np.testing.assert_allclose(np.mean(law.nodes**2, axis=0)[3], 12 / 10, rtol=0.05)

    def test_place_of_a_node(self, heavy):
        """Its variance is 1 / phi on the normal scale, times the squared slope of the scale of t."""
        column = without_tails(heavy[2]._point).columns[0]
        z, step = np.array([-1.5, 0.2, 2.0]), 1e-5
        slope = (student_scores(z + step, 3.0) - student_scores(z - step, 3.0)) / (2 * step)
        found = column.with_tails(3.0).looseness(student_scores(z, 3.0))
        np.testing.assert_allclose(found, slope**2 * column.looseness(z), rtol=1e-6)
        np.testing.assert_allclose(column.looseness(z), 1 / stats.norm.pdf(z))
        assert column.with_tails(3.0).span == pytest.approx(column.span)
        assert np.all(np.isfinite(column.with_tails(1.5).looseness(np.array([1e100]))))

    def test_there_and_back(self, heavy):
        model = heavy[2]._point
        again = with_tails(without_tails(model), model.tails)
        np.testing.assert_allclose(again.state.chain.z, model.state.chain.z, rtol=1e-7, atol=1e-9)
        for old, new in zip(model.columns, again.columns, strict=True):
            np.testing.assert_allclose(new.z, old.z, rtol=1e-7, atol=1e-9)
            assert new.df == old.df == model.tails


class TestLaws:
    def test_conditional_law_by_integration(self, known_model):
        """Mean, scale and shape of a gap against the ratio of multivariate t densities."""
        X, model, R = known_model
        rows = np.array([[X[3, 0], np.nan, X[3, 2]], [X[5, 0], np.nan, np.nan]])
        known = known_rows(rows, model.state.chain, model.columns, model.labels)
        q = (tailed_laws if model.joint is None else joint_laws)(known, model)
        z = np.full((2, 3), np.nan)
        z[known.rows.row, known.rows.column] = known.z
        for i in range(2):
            on = np.flatnonzero(~np.isnan(z[i]))
            both = np.append(on, 1)
            whole = stats.multivariate_t(shape=R[np.ix_(both, both)], df=3.0)
            part = stats.multivariate_t(shape=R[np.ix_(on, on)], df=3.0)
            law = StudentLaw(np.array([3.0 + len(on)]))
            mean, sd = q.t[i, 1], np.sqrt(q.V[i, 1])
            for at in (-2.0, 0.0, 0.7):
                exact = whole.logpdf([*z[i, on], mean + at * sd]) - part.logpdf(z[i, on])
                told = float(law.log_density(np.array([at]))[0]) - np.log(sd)
                assert told == pytest.approx(exact, abs=1e-8)
        width = 60 * np.sqrt(q.V[0, 1])
        whole = stats.multivariate_t(shape=R[np.ix_([0, 2, 1], [0, 2, 1])], df=3.0)
        part = stats.multivariate_t(shape=R[np.ix_([0, 2], [0, 2])], df=3.0).pdf(z[0, [0, 2]])
        mass = integrate.quad(
            lambda t: whole.pdf([*z[0, [0, 2]], t]) / part, q.t[0, 1] - width, q.t[0, 1], limit=200
        )[0]
        assert mass == pytest.approx(0.5, abs=1e-3)

    def test_left_out_is_hidden(self, known_model):
        """Each observed cell's law given the others is that of a gap in its place."""
        X, model, _ = known_model
        rows = np.array([[X[0, 0], X[0, 1], X[0, 2]], [X[1, 0], np.nan, X[1, 2]]])
        cells = left_out(rows, model)
        for c in range(len(cells.x)):
            i, j = cells.row[c], cells.column[c]
            hidden = rows.copy()
            hidden[i, j] = np.nan
            gap = next(g for g in gaps(hidden, model) if g.column == j)
            at = int(np.flatnonzero(gap.rows == i)[0])
            assert cells.mean[c] == pytest.approx(gap.mean[at], abs=1e-8)
            assert cells.sd[c] == pytest.approx(gap.sd[at], rel=1e-8)
            assert cells.law.df[c] == gap.law.df[at]

    def test_likelihoods_are_ratios(self, known_model):
        X, model, R = known_model
        z = known_rows(X[:4], model.state.chain, model.columns, model.labels).z.reshape(4, 3)
        whole = stats.multivariate_t(shape=R, df=3.0)
        exact = np.zeros(4)
        for j in range(3):
            rest = np.delete(np.arange(3), j)
            part = stats.multivariate_t(shape=R[np.ix_(rest, rest)], df=3.0)
            exact += whole.logpdf(z) - part.logpdf(z[:, rest])
            exact += stats.norm.logpdf(normal_scores(z[:, j], 3.0)) - stats.t.logpdf(z[:, j], 3.0)
        np.testing.assert_allclose(row_likelihoods(X[:4], model), exact, atol=1e-8)

    def test_interval_ends(self, heavy):
        """Beyond what the marginal adds they are the quantiles of Student's t."""
        _, holes, fitted = heavy
        model = fitted._point
        gap = next(iter(gaps(holes, model)))
        low, high = interval_ends(gap, model, 0.95)
        plain = gap.law.quantile([0.025, 0.975]) * gap.sd
        assert np.all(high - gap.mean >= plain[1])
        assert np.all(low - gap.mean <= plain[0])
        np.testing.assert_allclose(np.median((high - gap.mean) / plain[1]), 1.0, atol=0.05)

    def test_explained_on_the_normal_scale(self, heavy):
        _, holes, fitted = heavy
        model = fitted._point
        found = explained(holes, model)
        gap = next(iter(gaps(holes, model)))
        step = 1e-4 * gap.sd
        slope = (
            normal_scores(gap.mean + step, model.tails) - normal_scores(gap.mean - step, model.tails)
        ) / (2 * step)
        np.testing.assert_allclose(
            found[gap.rows, gap.column], np.maximum(1 - (gap.sd * slope) ** 2, 0), rtol=1e-4, atol=1e-6
        )

    def test_bound_has_the_variance_of_t(self, heavy):
        _, holes, fitted = heavy
        bound = fitted.probability_within(holes, 1.0, bound=True)
        true = fitted.probability_within(holes, 1.0)
        assert np.all(bound <= true + 1e-9)
        model = fitted._point
        gap = next(iter(gaps(holes, model)))
        column = model.columns[gap.column]
        low, high = column.around(column.values(gap.mean), 1.0)
        reach = np.minimum(gap.mean - low, high - gap.mean)
        exact = 1 - stats.t.var(gap.law.df, scale=gap.sd) / reach**2
        np.testing.assert_allclose(bound[gap.rows, gap.column], np.maximum(exact, 0.0), atol=1e-9)

    def test_variance_with_uncertain_loadings(self):
        """Var z_j = s_i (w'Vw + tr(C_j V) + noise_j) + t'C_j t, row by row."""
        rng = np.random.default_rng(0)
        A = rng.standard_normal((4, 2, 2))
        f = Factors(rng.standard_normal((4, 2)), A @ A.transpose(0, 2, 1), 0.1 + rng.random(4))
        B = rng.standard_normal((3, 2, 2))
        t, V, scale = rng.standard_normal((3, 2)), B @ B.transpose(0, 2, 1), np.array([0.5, 1.0, 4.0])
        found = latent_variance(Posterior(t, pack(V)), f, scale)
        for i, j in np.ndindex(3, 4):
            own = f.W[j] @ V[i] @ f.W[j] + np.trace(f.C[j] @ V[i]) + f.noise[j]
            assert found[i, j] == pytest.approx(scale[i] * own + t[i] @ f.C[j] @ t[i])

    def test_wider(self, heavy):
        _, holes, fitted = heavy
        model, wider = replace(fitted._point, wider=None), 1.0 + np.arange(10.0)
        more = replace(model, wider=wider)
        np.testing.assert_allclose(
            left_out(holes, more).sd, left_out(holes, model).sd * wider[left_out(holes, model).column]
        )
        for old, new in zip(gaps(holes, model), gaps(holes, more), strict=True):
            np.testing.assert_allclose(new.sd, old.sd * wider[old.column])

    def test_marginal_widens_intervals(self, heavy):
        """By the span of the nodes on the normal scale, and at an end by the looseness of a node there."""
        _, holes, fitted = heavy
        model = replace(fitted._point, cells=np.full(10, 20.0))
        gap = next(iter(gaps(holes, model)))
        column, s = model.columns[0], model.loose[0]
        variance = gap.sd**2 * (1 + np.ptp(normal_scores(column.z[[0, -1]], model.tails)) / (2 * s * 20.0))
        for side, end in zip((0.05, 0.95), interval_ends(gap, model, 0.9), strict=True):
            q = stats.t.ppf(side, gap.law.df)
            at = np.clip(gap.mean + q * np.sqrt(variance), column.z[0], column.z[-1])
            loose = column.looseness(at) * s / (2 * 20.0)
            np.testing.assert_allclose(end, gap.mean + q * np.sqrt(variance + loose), rtol=1e-9)

    def test_mean_is_the_integral(self, heavy):
        _, holes, fitted = heavy
        model = fitted._point
        gap = next(iter(gaps(holes, model))).some(np.arange(3))
        column = model.columns[gap.column]
        found = column.expectation(gap.mean, gap.sd, column.limits, gap.law)
        share = (np.arange(20_000) + 0.5) / 20_000
        for i in range(3):
            t = gap.mean[i] + gap.sd[i] * stats.t.ppf(share, gap.law.df[i])
            assert found[i] == pytest.approx(np.mean(np.clip(column.values(t), *column.limits)), abs=0.02)
        sure = column.expectation(gap.mean, np.zeros(3), None, gap.law)
        np.testing.assert_allclose(sure, column.values(gap.mean))


class TestDraws:
    def test_gaps_of_full_draws(self):
        """Drawn from a normal law and made heavier, a gap has the law of Student's t given its row."""
        rng = np.random.default_rng(0)
        R = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
        mean, scale, df, n = np.array([0.3, -0.2, 0.1]), np.array([1.0, 1.3, 0.8]), 3.0, 20_000
        found = Parameters(mean, R * np.outer(scale, scale), np.linalg.inv(R * np.outer(scale, scale)))
        u = np.tile([1.8, 0.0, 1.5], (n, 1))
        on, gap = np.array([0, 2]), np.array([1])
        weights = np.linalg.solve(R[np.ix_(on, on)], R[np.ix_(on, gap)]).ravel()
        left = float(R[1, 1] - R[1, on] @ weights)
        u[:, 1] = u[0, on] @ weights + np.sqrt(left) * rng.standard_normal(n)
        gone = np.zeros((n, 3), dtype=bool)
        gone[:, 1] = True
        z = heavier(mean + scale * u, gone, found, df, rng)
        np.testing.assert_allclose(z[:, on], (mean + scale * u)[:, on], atol=1e-9)
        t = student_scores((z[:, 1] - mean[1]) / scale[1], df)
        seen = student_scores(u[0, on], df)
        far = seen @ np.linalg.solve(R[np.ix_(on, on)], seen)
        exact = stats.t(df + 2, loc=seen @ weights, scale=np.sqrt(left * (df + far) / (df + 2)))
        assert stats.kstest(t, exact.cdf).pvalue > 0.01

    @pytest.mark.parametrize("known_model", ["factors"], indirect=True)
    def test_gaps_of_factor_draws(self, known_model):
        X, model, R = known_model
        rows = np.tile([np.max(X[:, 0]), np.nan, X[0, 2]], (200, 1))
        model = replace(model, cells=np.full(3, 1e9))
        tables = draws(rows, model, 40, np.random.default_rng(0), clip=False)
        t = np.concatenate([model.columns[1].latent(table[:, 1], smooth=True) for table in tables])
        z = known_rows(rows[:1], model.state.chain, model.columns, model.labels).z
        on = np.array([0, 2])
        weights = np.linalg.solve(R[np.ix_(on, on)], R[on, 1])
        far = z @ np.linalg.solve(R[np.ix_(on, on)], z)
        exact = stats.t(5.0, loc=z @ weights, scale=np.sqrt((1 - R[1, on] @ weights) * (3 + far) / 5))
        # where g is steep nodes lie close, so that its inverse is exact between them
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            assert np.mean(t <= exact.ppf(share)) == pytest.approx(share, abs=0.02)

    @pytest.mark.parametrize("df", [1.0, 1.5, 3.0, 6.0])
    @pytest.mark.parametrize("correlation", ["auto", "factors"])
    def test_rows_far_beyond_the_fit(self, df, correlation):
        _, holes = heavy_table(100, 4, 1, 3.0, 0)
        model = CopulaImputer(tails=df, correlation=correlation, nonlinear=False, random_state=0).fit(holes)
        far = np.array([[1e300, np.nan, -1e300, np.nan], [1e20, 1e300, np.nan, np.nan], [-1e8, np.nan, 0, 1]])
        far = np.vstack([far, np.full(4, np.nan)])
        for table in (*model.sample(far, 3, random_state=0), *model.interval(far), model.mean(far)):
            assert np.isfinite(table).all()

    def test_marginals_are_those_that_predict(self, heavy, monkeypatch):
        _, holes, fitted = heavy
        asked = []
        monkeypatch.setattr(_full, "full_draws", lambda *a, **_: asked.append(a[2]) or [holes])
        fitted.sample(holes)
        for column, old in zip(asked[0].columns, fitted._point.columns, strict=True):
            np.testing.assert_array_equal(column.z, normal_scores(old.z, fitted.tails_))

    def test_blocks_of_rows(self, heavy, monkeypatch):
        _, holes, _ = heavy
        model = CopulaImputer(2, correlation="factors", tails=3.0, nonlinear=False).fit(holes)._point
        monkeypatch.setattr(_predict, "rows_per_block", lambda *_: 7)
        (found,) = draws(holes, model, 1, np.random.default_rng(0), clip=False)
        assert not np.isnan(found).any()

    @pytest.mark.parametrize("correlation", ["auto", "factors"])
    def test_wild_rows_are_covered(self, correlation):
        X, holes = heavy_table(600, 10, 2, 2.0, 3)
        gone, wild = np.isnan(holes), wild_rows(holes)
        found = {}
        for tails in ("normal", 2.0):
            model = CopulaImputer(correlation=correlation, tails=tails, nonlinear=False, random_state=0).fit(
                holes
            )
            tables = np.array(model.sample(holes, 40, random_state=0))
            low, high = np.quantile(tables, [0.05, 0.95], axis=0)
            found[tails] = ((low <= X) & (high >= X))[wild][gone[wild]].mean()
        assert found["normal"] < 0.75
        assert 0.78 < found[2.0] < 0.95


class TestChoice:
    @pytest.mark.parametrize(
        ("df", "near"), [(1.5, (1.5, 2.0)), (3.0, (2.0, 3.0, 4.0)), (6.0, (4.0, 6.0, 10.0))]
    )
    def test_finds_tails(self, df, near):
        _, holes = heavy_table(1000, 10, 2, df, 5)
        assert CopulaImputer(nonlinear=False, random_state=0).fit(holes).tails_ in near

    @pytest.mark.parametrize("seed", range(4))
    def test_normal_tables_stay(self, seed):
        _, holes = heavy_table(300, 8, 2, np.inf, seed)
        model = CopulaImputer(random_state=0).fit(holes)
        plain = CopulaImputer(tails="normal", random_state=0).fit(holes)
        assert np.isinf(model.tails_)
        np.testing.assert_array_equal(model.transform(holes), plain.transform(holes))

    def test_predicts_wild_rows_better(self):
        better, covers = [], []
        for seed in range(3):
            X, holes = heavy_table(600, 10, 2, 1.5, 10 + seed)
            models = [
                CopulaImputer(tails=t, nonlinear=False, random_state=0).fit(holes) for t in ("normal", "auto")
            ]
            better.append(np.diff([absolute_error(m, X, holes) for m in models])[0])
            covers.append([cover(m, X, holes) for m in models])
        (_, wild), (every, wild_now) = np.mean(covers, axis=0)
        assert np.mean(better) < -0.02
        assert wild < 0.82
        assert 0.93 < wild_now < 0.99
        assert 0.935 < every < 0.97

    def test_score_says_so(self, heavy):
        _, holes, model = heavy
        plain = CopulaImputer(tails="normal", nonlinear=False, random_state=0).fit(holes)
        assert model.tails_ in (2.0, 3.0, 4.0)
        assert model.score(holes) > plain.score(holes) + 0.05

    def test_density_of_a_value(self, heavy):
        X, holes, fitted = heavy
        model = fitted._point
        gap = next(iter(gaps(holes, model)))
        column, x = model.columns[gap.column], X[gap.rows, gap.column]
        exact = stats.t.logpdf(column.latent(x), gap.law.df, gap.mean, gap.sd) + column.log_slope(x)
        np.testing.assert_allclose(value_density(column, gap, x), exact)

    def test_nodes_by_ranks(self, heavy):
        """Where their ranks are, at the place and spread that the fit has found for them."""
        holes = heavy[1][:300]
        plain = CopulaImputer(tails="normal", nonlinear=False, correlation="factors", random_state=0).fit(
            holes
        )
        model = plain._model
        shares = []
        for x in holes.T:
            seen = np.sort(x[~np.isnan(x)])
            shares.append(stats.norm.ppf((np.arange(len(seen)) + 0.5) / len(seen)))
        z = np.concatenate(shares)
        first = replace(model.state.chain, z=z)
        found = by_ranks(model, first)
        for j in range(holes.shape[1]):
            on = first.nodes(j)
            slope, place = np.polyfit(z[on], model.state.chain.z[on], 1)
            np.testing.assert_allclose(found.columns[j].z, place + slope * z[on], atol=1e-9)
        weight = np.random.default_rng(0).integers(1, 9, len(z)).astype(float)
        found = by_ranks(model, replace(first, z=z + 0.5, weight=weight))
        on = first.nodes(0)
        slope, place = np.polyfit(z[on], model.state.chain.z[on], 1, w=np.sqrt(weight[on]))
        np.testing.assert_allclose(found.columns[0].z, place + slope * z[on], atol=1e-9)
        np.testing.assert_array_equal(found.state.chain.z[on], found.columns[0].z)
        flat = replace(model.state, chain=replace(model.state.chain, z=np.zeros(len(z))))
        np.testing.assert_allclose(by_ranks(replace(model, state=flat), first).state.chain.z, z, atol=1e-9)

    def test_weights_count_rows(self):
        _, holes = heavy_table(300, 6, 2, 3.0, 2)
        weight = np.random.default_rng(0).integers(1, 4, len(holes))
        often = np.repeat(holes, weight, axis=0)
        a = CopulaImputer(tails=3.0, nonlinear=False, random_state=0).fit(holes, sample_weight=weight)
        b = CopulaImputer(tails=3.0, nonlinear=False, random_state=0).fit(often)
        np.testing.assert_allclose(a.transform(holes), b.transform(holes), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(a._point.lean, b._point.lean, atol=1e-4)
        ranks = by_ranks(a._model, a._model.state.chain)
        one = best_tails(holes, a._model, ranks, weight.astype(float))
        assert one == best_tails(often, a._model, ranks, None)

    def test_rows_that_hardly_weigh_have_no_say(self):
        rows = np.vstack([heavy_table(200, 6, 2, df, 4)[1] for df in (1.5, np.inf)])
        weight = np.repeat([1e-6, 1.0], 200)
        plain, weighed = CopulaImputer(nonlinear=False), CopulaImputer(nonlinear=False)
        assert np.isfinite(plain.fit(rows).tails_)
        assert np.isinf(weighed.fit(rows, sample_weight=weight).tails_)

    def test_lean_under_its_law(self, heavy, monkeypatch):
        _, holes, fitted = heavy
        model, laws = fitted._point, []
        np.testing.assert_allclose(model.lean, with_lean(model, holes, None).lean)
        told = _left_out.beside_median
        monkeypatch.setattr(_left_out, "beside_median", lambda *a: laws.append(a[-1]) or told(*a))
        with_lean(model, holes, None)
        cells = left_out(holes, model)
        for j, law in enumerate(laws):
            np.testing.assert_array_equal(law.df, cells.law.df[cells.column == j])


class TestRule:
    """Which tails are taken, by likelihoods of rows that are made up."""

    @pytest.fixture
    def ask(self, monkeypatch, heavy):
        ranks = without_tails(heavy[2]._point)
        model = replace(ranks)

        def found(gain, own=-1.0, rows=100, weight=None, best=3.0, first=0.1):
            """Tails, where ``best`` gains so much a row, with a ratio to the error of 10 gain / sqrt(gain^2 + 1) of 100 rows."""

            def told(X, asked):
                if asked is model:
                    return np.full(len(X), own)
                share = {best: 1.0, 10.0: first if best != 10.0 else 1.0}.get(asked.tails, -0.1)
                return (
                    np.zeros(len(X)) if np.isinf(asked.tails) else share * gain + (-1.0) ** np.arange(len(X))
                )

            monkeypatch.setattr(_heavy, "row_likelihoods", told)
            monkeypatch.setattr(_heavy, "wild", lambda *_: True)
            return best_tails(heavy[1][:rows], model, ranks, weight)

        return found

    @pytest.mark.parametrize("df", [1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0])
    def test_likeliest(self, ask, df):
        assert ask(1.0, best=df) == df

    def test_three_standard_errors(self, ask):
        assert ask(0.33) == 3.0
        assert np.isinf(ask(0.30))
        assert ask(0.16, weight=np.full(100, 4.0)) == 3.0
        assert np.isinf(ask(0.30, weight=np.full(100, 0.5)))

    def test_better_than_the_fit(self, ask):
        assert ask(1.0, own=0.9) == 3.0
        assert np.isinf(ask(1.0, own=1.1))

    def test_first_of_all_ten(self, ask):
        assert np.isinf(ask(1.0, first=-0.1))

    def test_some_rows_of_many_cells(self, ask, monkeypatch):
        monkeypatch.setattr(_heavy, "_CELLS", 500)
        assert np.isinf(ask(0.33, rows=100))  # every second of a thousand cells
        assert ask(1.0, rows=101, weight=np.ones(101)) == 3.0


class TestLook:
    """Whether rows vary too much, before any tails are tried."""

    @pytest.mark.parametrize("known_model", ["factors", "full"], indirect=True)
    def test_distances(self, known_model):
        X, model, R = known_model
        rows = np.vstack([X[0], [X[1, 0], np.nan, X[1, 2]]])
        known = known_rows(rows, model.state.chain, model.columns, model.labels)
        z = np.full((2, 3), np.nan)
        z[known.rows.row, known.rows.column] = known.z
        for far, row in zip(row_distances(known, model), z, strict=True):
            on = np.flatnonzero(~np.isnan(row))
            assert far == pytest.approx(row[on] @ np.linalg.solve(R[np.ix_(on, on)], row[on]))

    @pytest.mark.parametrize(("extra", "found"), [(0.0, False), (1.5, False), (2.5, True)])
    def test_two_errors(self, heavy, monkeypatch, extra, found):
        """Rows of u = 1 +- s with s^2 = 2 / m + a: a mean a, with an error of its own."""
        model, n = without_tails(heavy[2]._point), 100
        X = np.tile(heavy[0][:1, :4], (n, 1))
        X = np.hstack([X, np.full((n, 6), np.nan)])
        sign, noise = np.resize([1.0, -1.0], n), np.resize([1.0, 1.0, -1.0, -1.0], n)
        w = np.ones(n)
        more = 0.1 * (extra / 10 + noise)  # sum / root of squares = extra / sqrt(1 + extra^2 / 100)
        u = 1.0 + sign * np.sqrt(0.5 + more)
        monkeypatch.setattr(_heavy, "row_distances", lambda *_: 4 * u)
        assert wild(X, model, w) is found
        monkeypatch.setattr(_heavy, "_LOOK", 10)
        monkeypatch.setattr(_heavy, "row_distances", lambda known, _: 4 * np.ones(known.rows.n))
        assert not wild(X, model, w)

    def test_rows_that_show_less_vary_more(self, heavy, monkeypatch):
        """Distances of normal rows with two cells and with nine: chi-squared of so many degrees of freedom."""
        model = without_tails(heavy[2]._point)
        X = np.tile(heavy[0][:1], (1000, 1))
        X[:500, 2:] = X[500:, 9:] = np.nan
        at = (np.arange(500) + 0.5) / 500
        normal = np.r_[stats.chi2.ppf(at, 2), stats.chi2.ppf(at, 9)]
        for far, found in ((normal, False), (normal * np.resize([0.3, 1.7], 1000), True)):
            monkeypatch.setattr(_heavy, "row_distances", lambda *_, far=far: far)
            assert wild(X, model, np.ones(1000)) is found

    def test_rows_count_by_their_weights(self, heavy, monkeypatch):
        """Of rows that hardly count the distances hardly do, neither in the mean nor in the sum."""
        model = without_tails(heavy[2]._point)
        X = np.hstack([np.tile(heavy[0][:1, :4], (100, 1)), np.full((100, 6), np.nan)])
        u = np.r_[1.0 + np.resize([0.7, -0.7], 50), np.full(50, 8.0)]
        monkeypatch.setattr(_heavy, "row_distances", lambda *_: 4 * u)
        assert wild(X, model, np.ones(100))
        assert not wild(X, model, np.repeat([1.0, 1e-4], 50))

    def test_nothing_to_see(self, heavy):
        model = without_tails(heavy[2]._point)
        assert not wild(np.full((3, 10), np.nan), model, np.ones(3))
        assert not wild(heavy[1][:5], model, np.zeros(5))


def test_infinite_is_normal(heavy):
    holes = heavy[1][:100].copy()
    holes[:, 2] = holes[:, 2] > 0
    plain, infinite = (CopulaImputer(1, tails=t, random_state=0).fit(holes) for t in ("normal", np.inf))
    assert np.isinf(infinite.tails_)
    np.testing.assert_array_equal(infinite.transform(holes), plain.transform(holes))


class TestRefused:
    def test_levels(self):
        X, holes = heavy_table(200, 4, 1, 3.0, 0)
        holes[:, 2] = np.round(X[:, 2]) > 0
        with pytest.raises(ValueError, match=r"tails=3\.0, but column '2' has levels.*kinds"):
            CopulaImputer(tails=3.0).fit(holes)
        assert np.isinf(CopulaImputer().fit(holes).tails_)

    @pytest.mark.parametrize(
        ("options", "match"),
        [({"method": "paper", "n_components": 1}, "method='ep'"), ({"nonlinear": True}, "nonlinear='auto'")],
    )
    def test_options(self, options, match):
        X, _ = heavy_table(200, 4, 1, 3.0, 0)
        X[:, 3] = X[:, 0] ** 2 + 0.1 * X[:, 3]
        with pytest.raises(ValueError, match=match):
            CopulaImputer(tails=3.0, random_state=0, **options).fit(X)
        assert CopulaImputer(tails=3.0, random_state=0).fit(X).tails_ == 3.0
        assert CopulaImputer(random_state=0).fit(X)._point.curved is not None

    def test_sparse(self):
        X, _ = heavy_table(200, 4, 1, 3.0, 0)
        with pytest.raises(ValueError, match="table in memory"):
            CopulaImputer(tails=3.0).fit(sparse.csr_array(X))

    def test_one_column(self):
        with pytest.raises(ValueError, match="more columns"):
            CopulaImputer(tails=3.0).fit(np.random.default_rng(0).standard_normal((50, 1)))

    def test_unseen_pairs(self):
        _, holes = heavy_table(200, 4, 1, 3.0, 0, gone=0.0)
        holes[::2, 0], holes[1::2, 1] = np.nan, np.nan
        with pytest.raises(ValueError, match="never observed together"):
            CopulaImputer(tails=3.0).fit(holes)
        with pytest.warns(UserWarning, match="together"):
            assert np.isinf(CopulaImputer().fit(holes).tails_)

    @pytest.mark.parametrize("tails", [0.5, np.nan, -np.inf, "heavy", None])
    def test_values(self, tails):
        with pytest.raises(ValueError, match="tails"):
            CopulaImputer(tails=tails).fit(np.random.default_rng(0).standard_normal((50, 3)))

    def test_summary_tells(self, heavy):
        assert "degrees of freedom" in str(heavy[2].summary())
