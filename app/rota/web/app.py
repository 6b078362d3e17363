"""The routes of a process, by its roles."""

from typing import Any

import falcon
import falcon.asgi

from rota.hub import Hub
from rota.roles import Role
from rota.web import errors, tlog
from rota.web.health import HealthResource, ProcessHealthResource, VersionResource
from rota.web.home import HomeResource
from rota.web.lifespan import Lifespan
from rota.web.metrics import Metrics, MetricsResource
from rota.web.request import Measure, RequestId, StrictHost

App = falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response]


def create_app(hub: Hub) -> App:
    """Return the ASGI app: the whole router for a web process, two routes for a worker alone."""
    metrics = Metrics(hub)
    app: App = falcon.asgi.App(middleware=(Lifespan(hub), RequestId(), StrictHost(), Measure(metrics)))
    app.set_error_serializer(errors.serialize)
    app.add_error_handler(Exception, errors.crashed)
    _get(app, "/health", HealthResource(hub))
    _get(app, "/metrics", MetricsResource(metrics, hub.settings.server.metrics_token))
    if Role.WEB in hub.settings.roles:
        _get(app, "/", HomeResource(hub))
        _get(app, "/health/process", ProcessHealthResource(hub))
        _get(app, "/version", VersionResource())
        tlog.add_routes(app, hub, _get)
    return app


def _get(app: App, path: str, resource: Any) -> None:
    """Add a resource, answering HEAD wherever it answers GET: monitors ask so."""
    if not hasattr(resource, "on_head"):
        resource.on_head = resource.on_get
    app.add_route(path, resource)
