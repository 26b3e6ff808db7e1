# batchheap/Makefile

MODULE_big = batchheap
OBJS = \
	$(WIN32RES) \
	batchheap.o \
	bhexec.o \
	bhform.o \
	bhindex.o \
	bhload.o \
	bhpages.o \
	bhprogress.o \
	bhstats.o \
	bhswitch.o \
	bhtoast.o

EXTENSION = batchheap
DATA = batchheap--1.0.sql
PGFILEDESC = "batchheap - table access method for batched, frozen loads"

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
ISOLATION = $(patsubst specs/%.spec,%,$(sort $(wildcard specs/*.spec)))
ISOLATION_OPTS = --load-extension=batchheap
TAP_TESTS = 1

PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# archives of the last commit, without what .gitattributes leaves out
DISTNAME = $(EXTENSION)-$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(EXTENSION).control)

.PHONY: dist
dist:
	git archive --prefix=$(DISTNAME)/ --output=$(DISTNAME).zip HEAD
	git archive --prefix=$(DISTNAME)/ --output=$(DISTNAME).tar.gz HEAD
