"""What runs the lab: jars, checks, notebooks, servers, submitting, bundling and deploying."""
