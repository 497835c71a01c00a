// minio-js.

"use strict";

const fs = require("node:fs");
const { pipeline } = require("node:stream/promises");
const { Client, CopyConditions } = require("minio");
const { PART_BYTES, serve } = require("./driving.cjs");

class MinioJs {
  constructor() {
    const endpoint = new URL(process.env.AWS_ENDPOINT_URL);
    this.client = new Client({
      endPoint: endpoint.hostname,
      port: Number(endpoint.port),
      useSSL: false,
      accessKey: process.env.AWS_ACCESS_KEY_ID,
      secretKey: process.env.AWS_SECRET_ACCESS_KEY,
      partSize: PART_BYTES,
    });
  }

  make_bucket(bucket) {
    return this.client.makeBucket(bucket);
  }

  remove_bucket(bucket) {
    return this.client.removeBucket(bucket);
  }

  async put(file, bucket, key) {
    await this.client.fPutObject(bucket, key, file);
  }

  get(bucket, key, file) {
    return this.client.fGetObject(bucket, key, file);
  }

  async get_range(bucket, key, file, offset, length) {
    const data = await this.client.getPartialObject(bucket, key, offset, length);
    await pipeline(data, fs.createWriteStream(file));
  }

  async copy(bucket, key, newKey) {
    await this.client.copyObject(bucket, newKey, `/${bucket}/${key}`, new CopyConditions());
  }

  async keys(bucket) {
    const found = [];
    for await (const entry of this.client.listObjectsV2(bucket, "", true)) {
      found.push(entry.name);
    }
    return found;
  }

  remove(bucket, key) {
    return this.client.removeObject(bucket, key);
  }

  remove_all(bucket, keys) {
    return this.client.removeObjects(bucket, keys);
  }
}

serve(new MinioJs());
