"""Superset's start page, also after the login, is the dashboard Overview."""

from flask import redirect, url_for
from flask_appbuilder import expose
from superset.initialization import SupersetIndexView

# The slug of dashboards/overview.yaml.
OVERVIEW = "trace-overview"


class StartPage(SupersetIndexView):
    """Redirects to the Overview, or to Superset's own start page for a user who may not see it."""

    @expose("/")
    def index(self):  # noqa: ANN201 - as Superset declares it
        """Called for `/`."""
        # The models can be imported when the application exists.
        from superset import security_manager
        from superset.models.dashboard import Dashboard
        from superset.utils.core import get_user_id

        overview = Dashboard.get(OVERVIEW)
        if get_user_id() and not (overview and security_manager.can_access_dashboard(overview)):
            return super().index()
        return redirect(url_for("Superset.dashboard", dashboard_id_or_slug=OVERVIEW))
