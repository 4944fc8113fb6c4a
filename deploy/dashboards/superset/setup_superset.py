"""Bring Superset's database to the state of the files: schema, admin, roles, objects. It runs in Superset's environment.

`python setup_superset.py PLAN`, where PLAN is a JSON file with `admin`, `password_file`, `bundle` (folder; none: nothing is
imported), and `roles`, as `deploy.dashboards.service` writes it.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from flask_migrate import upgrade
from superset.app import create_app

KINDS = ("databases", "datasets", "charts", "dashboards")
# What somebody who looks at dashboards needs of Superset's role Gamma: to read, and to render charts.
VIEWER = {
    ("can_csv", "Superset"),
    ("can_dashboard", "Superset"),
    ("can_dashboard_permalink", "Superset"),
    ("can_explore_json", "Superset"),
    ("can_fetch_datasource_metadata", "Superset"),
    ("can_language_pack", "Superset"),
    ("can_log", "Superset"),
    ("can_share_dashboard", "Superset"),
    ("can_slice", "Superset"),
    ("can_drill", "Dashboard"),
    ("can_get_embedded", "Dashboard"),
    ("can_view_chart_as_table", "Dashboard"),
    ("can_view_query", "Dashboard"),
    ("can_get", "MenuApi"),
    ("can_get_drill_info", "Dataset"),
    ("can_list", "AsyncEventsRestApi"),
    ("can_query", "Api"),
    ("can_query_form_data", "Api"),
    ("can_time_range", "Api"),
    ("can_read", "AvailableDomains"),
    ("can_read", "Chart"),
    ("can_read", "CssTemplate"),
    ("can_read", "CurrentUserRestApi"),
    ("can_read", "Dashboard"),
    ("can_read", "DashboardFilterStateRestApi"),
    ("can_read", "DashboardPermalinkRestApi"),
    ("can_read", "Dataset"),
    ("can_read", "EmbeddedDashboard"),
    ("can_read", "ExploreFormDataRestApi"),
    ("can_read", "SecurityRestApi"),
    ("can_read", "Theme"),
    ("can_read", "security"),
    ("can_read", "user"),
    ("can_recent_activity", "Log"),
    ("can_write", "DashboardFilterStateRestApi"),
    ("can_write", "DashboardPermalinkRestApi"),
    ("can_write", "ExploreFormDataRestApi"),
    ("can_this_form_get", "ResetMyPasswordView"),
    ("can_this_form_post", "ResetMyPasswordView"),
    ("resetmypassword", "UserDBModelView"),
    ("can_userinfo", "UserDBModelView"),
    ("menu_access", "Dashboards"),
    ("menu_access", "Home"),
}
ANALYST_SQL = {
    ("can_read", "SQLLab"),
    ("can_execute_sql_query", "SQLLab"),
    ("can_format_sql", "SQLLab"),
    ("can_get_results", "SQLLab"),
    ("can_export_csv", "SQLLab"),
    ("can_estimate_query_cost", "SQLLab"),
    ("can_sqllab", "Superset"),
    ("can_sqllab_history", "Superset"),
    ("can_read", "Query"),
    ("can_read", "Database"),
    ("can_read", "SavedQuery"),
    ("can_write", "SavedQuery"),
    ("can_activate", "TabStateView"),
    ("can_get", "TabStateView"),
    ("can_post", "TabStateView"),
    ("can_put", "TabStateView"),
    ("can_delete", "TabStateView"),
    ("can_delete_query", "TabStateView"),
    ("can_migrate_query", "TabStateView"),
    ("can_expanded", "TableSchemaView"),
    ("can_delete", "TableSchemaView"),
    ("can_post", "TableSchemaView"),
    ("menu_access", "SQL Lab"),
    ("menu_access", "SQL Editor"),
    ("menu_access", "Query Search"),
    ("menu_access", "Saved Queries"),
}


def main(plan: dict) -> None:
    """Carry out the plan; each step may be repeated."""
    app = create_app()
    with app.app_context():
        upgrade()
        from superset import appbuilder, security_manager
        from superset.utils.core import override_user

        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        admin = _admin(security_manager, plan["admin"], Path(plan["password_file"]).read_text())
        with override_user(admin):
            if plan["bundle"]:
                _import(Path(plan["bundle"]))
            _roles(security_manager, plan["roles"])


def _admin(security_manager: Any, name: str, password: str) -> Any:
    found = security_manager.find_user(name)
    if found is None:
        role = security_manager.find_role("Admin")
        found = security_manager.add_user(name, "Trace", "Warehouse", f"{name}@localhost", role, password)
        assert found, "the admin was not created"
    return found


def _import(folder: Path) -> None:
    """Import a bundle, and delete all objects that it does not have."""
    from superset import db
    from superset.commands.importers.v1.assets import ImportAssetsCommand
    from superset.connectors.sqla.models import SqlaTable
    from superset.models.core import Database
    from superset.models.dashboard import Dashboard
    from superset.models.slice import Slice

    files = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.yaml"))}
    ImportAssetsCommand(files).run()
    kept = {
        kind: {yaml.safe_load(text)["uuid"] for path, text in files.items() if path.startswith(f"{kind}/")}
        for kind in KINDS
    }
    models = {"databases": Database, "datasets": SqlaTable, "charts": Slice, "dashboards": Dashboard}
    for kind in reversed(KINDS):
        for found in db.session.query(models[kind]).all():
            if str(found.uuid) not in kept[kind]:
                print(f"deleted, as no file has it: {kind} {found}")
                db.session.delete(found)
            elif kind == "dashboards":
                found.published = True
    db.session.commit()
    print("imported " + ", ".join(f"{len(kept[kind])} {kind}" for kind in reversed(KINDS)))


def _roles(security_manager: Any, roles: list[dict]) -> None:
    """Create the roles and their row-level rules as planned.

    A role that was planned with rules and is no longer planned loses its permissions: without the rules it would show all rows.
    Rules and roles that somebody else made stay.
    """
    from superset import db
    from superset.connectors.sqla.models import RowLevelSecurityFilter, SqlaTable
    from superset.utils.core import RowLevelSecurityFilterType

    datasets = db.session.query(SqlaTable).all()
    names = {planned["name"] for planned in roles}
    for rule in db.session.query(RowLevelSecurityFilter).all():
        (role, *others) = rule.roles or [None]
        if role is None or others or not rule.name.startswith(f"{role.name}: "):
            continue
        if role.name not in names and role.permissions:
            print(f"no file has the role {role.name} any more: it may see nothing")
            role.permissions = []
        db.session.delete(rule)
    for planned in roles:
        role = security_manager.add_role(planned["name"]) or security_manager.find_role(planned["name"])
        wanted = VIEWER | (ANALYST_SQL if planned["may_query"] else set())
        role.permissions = [
            found
            for found in (security_manager.find_permission_view_menu(*pair) for pair in sorted(wanted))
            if found is not None
        ]
        for dataset in datasets:
            role.permissions.append(
                security_manager.add_permission_view_menu("datasource_access", dataset.perm)
            )
        if planned["may_query"]:
            for database in {dataset.database for dataset in datasets}:
                role.permissions.append(
                    security_manager.add_permission_view_menu("database_access", database.perm)
                )
        for column, values in planned["only"].items():
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
            tables = defaultdict(list)  # by what the column is, which a dataset may calculate
            for dataset in datasets:
                for found in dataset.columns:
                    if found.column_name == column:
                        tables[found.expression or column].append(dataset)
            for number, (expression, of_expression) in enumerate(tables.items(), start=1):
                db.session.add(
                    RowLevelSecurityFilter(
                        name=f"{planned['name']}: {column} {number}",
                        description=f"rows of {column} {', '.join(values)}",
                        filter_type=RowLevelSecurityFilterType.REGULAR.value,
                        group_key=f"{planned['name']}-{column}",
                        clause=f"{expression} in ({listed})",
                        roles=[role],
                        tables=of_expression,
                    )
                )
            # A dataset without the column would show the rows of all.
            for dataset in datasets:
                if not any(dataset in each for each in tables.values()):
                    role.permissions = [p for p in role.permissions if p.view_menu.name != dataset.perm]
    db.session.commit()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
