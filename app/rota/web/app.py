"""The routes of a process, by its roles."""

import falcon
import falcon.asgi

from rota.access.passwords import Passwords
from rota.acts.key import log_key
from rota.acts.search import Acts
from rota.deploys.asking import Asking
from rota.errors import RotaError
from rota.hub import Hub
from rota.roles import Role
from rota.routing.domains import Naming
from rota.servers.enrolment import Enrolments
from rota.tlog.disk import LocalDisk
from rota.tlog.publication import Publication
from rota.tlog.view import View
from rota.web import (
    accounts,
    acts,
    agents,
    apps,
    artifacts,
    builds,
    configuration,
    deploys,
    domains,
    gate,
    live,
    logs,
    mail,
    me,
    queue,
    releases,
    rooms,
    servers,
    sign_in,
    tlog,
    tokens,
    webhooks,
)
from rota.web.assets import AssetResource
from rota.web.cookies import SessionCookie
from rota.web.credentials import Credentials
from rota.web.endpoint import App, Routes
from rota.web.guard import Guard
from rota.web.health import HealthResource, ProcessHealthResource, VersionResource
from rota.web.home import HomeResource
from rota.web.lifespan import Lifespan
from rota.web.limits import RateLimits
from rota.web.live import Feed
from rota.web.live_metrics import LiveCollector
from rota.web.metrics import Metrics, MetricsResource
from rota.web.openapi import OpenApiResource
from rota.web.pages import Pages
from rota.web.peer import Peers
from rota.web.problems import Problems
from rota.web.request import Measure, RequestId, StrictHost, StrictPath
from rota.web.sign_in import Doorman
from rota.web.signed import SignedRequests


def create_app(hub: Hub) -> App:
    """Return the ASGI app of a process."""
    return create_routes(hub).app


def create_routes(hub: Hub) -> Routes:
    """Return the routes of a process: all for a web process, two for a worker alone."""
    metrics, peers = Metrics(hub), Peers(hub.settings.server.trusted_proxies)
    limits = RateLimits(hub.settings.limits)
    cookie = SessionCookie(peers)
    credentials = Credentials(hub, cookie)
    app: App = falcon.asgi.App(
        middleware=(Lifespan(hub), RequestId(), StrictHost(), Measure(metrics), StrictPath())
    )
    routes = Routes(app)
    app.add_middleware(Guard(routes, credentials.caller, peers, limits))
    pages = Pages(hub, routes)
    problems = Problems(pages)
    app.set_error_serializer(problems.serialize)
    app.add_error_handler(Exception, problems.crashed)
    app.add_error_handler(RotaError, problems.refused)
    routes.add("/health", HealthResource(hub))
    routes.add("/metrics", MetricsResource(metrics, hub.settings.server.metrics_token))
    if Role.WEB in hub.settings.roles:
        feed = Feed(hub, credentials.revoked)
        app.add_middleware(feed)
        metrics.registry.register(LiveCollector(feed.streams))
        directory = hub.settings.tlog_directory
        found = Acts(LocalDisk(directory), View(Publication(directory)))
        routes.add("/", HomeResource(hub, pages, found))
        routes.add("/assets/{name}", AssetResource())
        routes.add("/health/process", ProcessHealthResource(hub))
        routes.add("/version", VersionResource())
        passwords = Passwords()
        doorman = Doorman(hub, passwords, peers, limits)
        sign_in.add_routes(routes, hub, pages, cookie, doorman)
        me.add_routes(routes, hub, passwords, doorman)
        tokens.add_routes(routes, hub, pages)
        accounts.add_routes(routes, hub, pages, passwords)
        queue.add_routes(routes, hub, pages)
        tlog.add_routes(routes, hub, pages)
        acts.add_routes(routes, found, pages)
        live.add_routes(routes, feed)
        rooms.add_routes(routes, hub, pages, feed.rooms)
        webhooks.add_routes(routes, hub, pages)
        mail.add_routes(routes, hub)
        _add_apps(routes, hub)
        routes.add("/openapi.json", OpenApiResource(routes))
    return routes


def _add_apps(routes: Routes, hub: Hub) -> None:
    """Add what has to do with servers and with the apps that they run."""
    enrolments = Enrolments(hub.settings, hub.database, hub.tlog, log_key(hub.settings))
    reception = agents.add_routes(routes, hub, enrolments)
    signed = SignedRequests(reception)
    servers.add_routes(routes, hub, enrolments)
    asking = Asking(hub.settings, hub.database, hub.tlog, hub.together.queue, hub.together.bus)
    apps.add_routes(routes, hub)
    deploys.add_routes(routes, hub, asking)
    naming = Naming(hub.settings, hub.database, hub.tlog, hub.together.bus)
    domains.add_routes(routes, hub, naming)
    gate.add_routes(routes, hub, naming)
    artifacts.add_routes(routes, hub, signed)
    logs.add_routes(routes, hub, signed)
    builds.add_routes(routes, hub)
    configuration.add_routes(routes, hub)
    releases.add_routes(routes, hub)
