// The AWS SDK for JavaScript v3: client-s3, and lib-storage for multipart uploads.

"use strict";

const fs = require("node:fs");
const { pipeline } = require("node:stream/promises");
const s3 = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");
const { PART_BYTES, serve } = require("./driving.cjs");

class JsSdk {
  constructor() {
    this.client = new s3.S3Client({
      endpoint: process.env.AWS_ENDPOINT_URL,
      region: process.env.AWS_DEFAULT_REGION,
      forcePathStyle: true,
      maxAttempts: 1,
    });
  }

  async make_bucket(Bucket) {
    await this.client.send(new s3.CreateBucketCommand({ Bucket }));
  }

  async remove_bucket(Bucket) {
    await this.client.send(new s3.DeleteBucketCommand({ Bucket }));
  }

  async put(file, Bucket, Key) {
    const params = { Bucket, Key, Body: fs.createReadStream(file) };
    await new Upload({ client: this.client, params, partSize: PART_BYTES }).done();
  }

  async get(Bucket, Key, file) {
    const reply = await this.client.send(new s3.GetObjectCommand({ Bucket, Key }));
    await pipeline(reply.Body, fs.createWriteStream(file));
  }

  async get_range(Bucket, Key, file, offset, length) {
    const Range = `bytes=${offset}-${offset + length - 1}`;
    const reply = await this.client.send(new s3.GetObjectCommand({ Bucket, Key, Range }));
    await pipeline(reply.Body, fs.createWriteStream(file));
  }

  async copy(Bucket, key, Key) {
    // The header is the caller's to encode (CopyObject, x-amz-copy-source).
    const CopySource = encodeURIComponent(`${Bucket}/${key}`);
    await this.client.send(new s3.CopyObjectCommand({ Bucket, Key, CopySource }));
  }

  async keys(Bucket) {
    const found = [];
    for await (const page of s3.paginateListObjectsV2({ client: this.client }, { Bucket })) {
      found.push(...(page.Contents ?? []).map((entry) => entry.Key));
    }
    return found;
  }

  async remove(Bucket, Key) {
    await this.client.send(new s3.DeleteObjectCommand({ Bucket, Key }));
  }

  async remove_all(Bucket, keys) {
    const Delete = { Objects: keys.map((Key) => ({ Key })) };
    await this.client.send(new s3.DeleteObjectsCommand({ Bucket, Delete }));
  }
}

serve(new JsSdk());
