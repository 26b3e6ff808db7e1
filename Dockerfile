# The official image of PostgreSQL with batchheap:
#
#   docker build --build-arg PG_MAJOR=17 -t batchheap:17 .
#
# The extension is built in an image of its own, so that nothing of the compiler
# comes into the result.

ARG PG_MAJOR=17

FROM postgres:$PG_MAJOR AS build
ARG PG_MAJOR
COPY . /src
WORKDIR /src
RUN apt-get update \
	&& apt-get install -y --no-install-recommends gcc libc6-dev make "postgresql-server-dev-$PG_MAJOR" \
	&& export PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" \
	&& make with_llvm=no \
	&& make with_llvm=no install DESTDIR=/stage \
	&& install -D -m 644 -t /stage/usr/share/doc/batchheap LICENSE README.md

FROM postgres:$PG_MAJOR
COPY --from=build /stage /
