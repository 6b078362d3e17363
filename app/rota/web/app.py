"""The routes of a process, by its roles."""

import falcon
import falcon.asgi

from rota.access.passwords import Passwords
from rota.errors import RotaError
from rota.hub import Hub
from rota.roles import Role
from rota.web import accounts, mail, me, queue, sign_in, tlog, tokens, webhooks
from rota.web.assets import AssetResource
from rota.web.cookies import SessionCookie
from rota.web.credentials import Credentials
from rota.web.endpoint import App, Routes
from rota.web.guard import Guard
from rota.web.health import HealthResource, ProcessHealthResource, VersionResource
from rota.web.home import HomeResource
from rota.web.lifespan import Lifespan
from rota.web.limits import RateLimits
from rota.web.metrics import Metrics, MetricsResource
from rota.web.pages import Pages
from rota.web.peer import Peers
from rota.web.problems import Problems
from rota.web.request import Measure, RequestId, StrictHost
from rota.web.sign_in import Doorman


def create_app(hub: Hub) -> App:
    """Return the ASGI app: the whole router for a web process, two routes for a worker alone."""
    metrics, pages = Metrics(hub), Pages(hub)
    problems, peers = Problems(pages), Peers(hub.settings.server.trusted_proxies)
    limits = RateLimits(hub.settings.limits)
    cookie = SessionCookie(peers)
    credentials = Credentials(hub, cookie)
    app: App = falcon.asgi.App(middleware=(Lifespan(hub), RequestId(), StrictHost(), Measure(metrics)))
    routes = Routes(app)
    app.add_middleware(Guard(routes, credentials.caller, peers, limits))
    app.set_error_serializer(problems.serialize)
    app.add_error_handler(Exception, problems.crashed)
    app.add_error_handler(RotaError, problems.refused)
    routes.add("/health", HealthResource(hub))
    routes.add("/metrics", MetricsResource(metrics, hub.settings.server.metrics_token))
    if Role.WEB in hub.settings.roles:
        routes.add("/", HomeResource(hub, pages))
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
        webhooks.add_routes(routes, hub, pages)
        mail.add_routes(routes, hub)
    return app
