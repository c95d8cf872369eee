"""The users of the database that judicators log in as: one for each password of the file, and none left over."""

from __future__ import annotations

from judge.config import MongodbConfig
from judge.mongodb import store
from judge.mongodb.store import Bson, Client


def ensure(client: Client, config: MongodbConfig) -> list[str]:
    """Make a user for each password of the config's file, or give it that password; the names of those that are new.

    They may read and write the one database, and see the state of the set: not change users, settings or members.
    `client` is a member's, on the primary. RefusedError for a file without passwords, else what `translate` says.
    """
    roles = [{"role": "readWrite", "db": config.database}, {"role": "clusterMonitor", "db": "admin"}]
    created = []
    with store.translated():
        for login in store.logins(config.username, config.password_file):
            fields: Bson = {"pwd": login["password"], "roles": roles, "writeConcern": {"w": "majority"}}
            exists = bool(client.admin.command("usersInfo", login["username"])["users"])
            client.admin.command("updateUser" if exists else "createUser", login["username"], **fields)
            created += [] if exists else [str(login["username"])]
    return created


def left_over(username: str, stored_users: list[str], wanted_users: list[str]) -> list[str]:
    """The users in `stored_users` that were the judicators' and whose passwords are no longer in force, sorted."""
    own_users = {name for name in stored_users if name == username or name.startswith(f"{username}.")}
    return sorted(own_users - set(wanted_users))


def remove_left_over(client: Client, config: MongodbConfig) -> list[str]:
    """Remove the users whose passwords are not in the config's file any more; their names. Raises as `ensure` does."""
    wanted_users = [str(login["username"]) for login in store.logins(config.username, config.password_file)]
    if config.username is None or not wanted_users:
        return []
    with store.translated():
        stored_users = [str(user["user"]) for user in client.admin.command("usersInfo", 1)["users"]]
        leftover = left_over(config.username, stored_users, wanted_users)
        for name in leftover:
            client.admin.command("dropUser", name, writeConcern={"w": "majority"})
    return leftover
