"""People and log back ends are told of incidents."""
